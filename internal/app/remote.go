package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/org/rollout-action/internal/fetch"
	"github.com/org/rollout-action/internal/result"
)

// headerVariable has the header with which a baseline is requested from a server that wants one: NAME: VALUE.
const headerVariable = "ROLLOUT_BASELINE_HEADER"

// errNoObject means that there is nothing at a URL yet. The first run of all has no baseline.
var errNoObject = errors.New("there is nothing at this URL yet")

// isRemote reports whether a baseline is a URL.
func isRemote(source string) bool {
	for _, scheme := range []string{"https", "http", fetch.S3} {
		if strings.HasPrefix(source, scheme+"://") {
			return true
		}
	}
	return false
}

// shown returns a baseline as people may see it. URLs may have secrets.
func shown(source string) string {
	if isRemote(source) {
		return fetch.Shown(source, "the baseline's URL")
	}
	return clean(source)
}

// download reads the result.json of a job from a URL. The error is errNoObject where there is nothing.
func (f finder) download(ctx context.Context, source string) (*result.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	opts := fetch.Options{Max: result.MaxJobFile}
	address := source
	if strings.HasPrefix(source, fetch.S3+"://") {
		signed, err := fetch.Sign(ctx, f.Getenv, source)
		if err != nil {
			return nil, remoteError(source, err)
		}
		address = signed
	} else if text := f.value(headerVariable); text != "" {
		name, value, found := strings.Cut(text, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !found || name == "" || value == "" || strings.ContainsAny(text, "\r\n") {
			return nil, usage("%s: want NAME: VALUE, such as PRIVATE-TOKEN: abc", headerVariable)
		}
		opts.Header = http.Header{}
		opts.Header.Set(name, value)
	}
	file, err := fetch.Get(ctx, address, opts)
	var answer *fetch.StatusError
	switch {
	case errors.As(err, &answer) && (answer.Code == http.StatusNotFound || answer.Code == http.StatusGone):
		return nil, errNoObject
	case err != nil:
		return nil, remoteError(source, err)
	}
	job, err := result.ParseJob(shown(source), file.Data)
	if err != nil {
		return nil, &UsageError{err}
	}
	return &job, nil
}

// remoteError names the URL, and what helps against a refusal.
func remoteError(source string, err error) error {
	hint := ""
	var answer *fetch.StatusError
	if errors.As(err, &answer) && (answer.Code == http.StatusForbidden || answer.Code == http.StatusUnauthorized) {
		hint = "; set " + headerVariable + " for a server that wants a token"
		if strings.HasPrefix(source, fetch.S3+"://") {
			hint = "; S3 answers so, too, where there is no such object and the credentials may not list the bucket (s3:ListBucket)"
		}
	}
	return fmt.Errorf("%s: %w%s", shown(source), err, hint)
}
