package reporting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/fetch"
)

// headerVariable holds the header for requests of a baseline from a server that requires one: NAME:
// VALUE.
const headerVariable = "ROLLOUT_BASELINE_HEADER"

// errNoObject means that there is nothing at a URL yet: the very first run has no baseline.
var errNoObject = errors.New("there is nothing at this URL yet")

// aPassword matches a user and a password in a URL, even a malformed one.
var aPassword = regexp.MustCompile(`[^/\s]*:[^/\s]*@`)

// ShownSource returns a baseline for printing. URLs may contain secrets, even malformed ones.
func ShownSource(source string) string {
	text := host.Clean(source)
	if host.IsRemote(source) {
		text = fetch.Shown(source, "the baseline's URL")
	}
	return aPassword.ReplaceAllString(text, "***@")
}

// checkRemote refuses a URL that cannot be read, and one that would send secrets in clear text.
func (f Finder) checkRemote(source string) error {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || !slices.Contains([]string{"https", "http", fetch.S3}, u.Scheme) { // Parse makes it lower case
		return host.Usagef("%s: want a path, https://HOST/PATH or s3://BUCKET/KEY", ShownSource(source))
	}
	secret := u.User != nil || u.RawQuery != "" || f.Variable(headerVariable) != ""
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && secret && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return host.Usagef("%s: http would send your credentials so that others can read them: use https", ShownSource(source))
	}
	return nil
}

// download reads the result.json of a job from a URL. The error is errNoObject if there is nothing.
func (f Finder) download(ctx context.Context, source string) (*result.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	if err := f.checkRemote(source); err != nil {
		return nil, err
	}
	opts := fetch.Options{Max: result.MaxJobFile}
	address := source
	if isS3(source) {
		signed, err := fetch.Sign(ctx, f.Getenv, source)
		if err != nil {
			return nil, remoteError(source, err)
		}
		address = signed
	} else if text := f.Variable(headerVariable); text != "" {
		name, value, found := strings.Cut(text, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !found || name == "" || value == "" || strings.ContainsAny(text, "\r\n") {
			return nil, host.Usagef("%s: want NAME: VALUE, such as PRIVATE-TOKEN: abc", headerVariable)
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
	job, err := result.ParseJob(ShownSource(source), file.Data)
	if err != nil {
		return nil, &host.UsageError{Err: err}
	}
	return &job, nil
}

func isS3(source string) bool {
	u, err := url.Parse(source)
	return err == nil && u.Scheme == fetch.S3
}

// remoteError adds the URL and advice to an error.
func remoteError(source string, err error) error {
	hint := ""
	var answer *fetch.StatusError
	if errors.As(err, &answer) && (answer.Code == http.StatusForbidden || answer.Code == http.StatusUnauthorized) {
		hint = "; set " + headerVariable + " for a server that wants a token"
		if isS3(source) {
			hint = "; S3 answers so, too, where there is no such object and the credentials may not list the bucket (s3:ListBucket)"
		}
	}
	return fmt.Errorf("%s: %w%s", ShownSource(source), err, hint)
}
