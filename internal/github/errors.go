package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	gh "github.com/google/go-github/v66/github"

	"github.com/org/rollout-action/internal/untrusted"
)

// ErrReadOnly is what writing with a token that may only read ends in.
var ErrReadOnly = errors.New("the token may not write to pull requests: those of a fork or of Dependabot are run with a token that " +
	"only reads (a second workflow on workflow_run can comment for them); for others, give the job the permission pull-requests: write")

// RateLimitError says that GitHub wants no requests for longer than the client waits.
type RateLimitError struct {
	Until     time.Time // when GitHub takes requests again
	Secondary bool      // too many requests in a short time; otherwise the hour's quota is used up
	MaxWait   time.Duration
}

func (e *RateLimitError) Error() string {
	what := "GitHub's rate limit for this token is used up"
	if e.Secondary {
		what = "GitHub refuses requests because too many came in a short time"
	}
	return fmt.Sprintf("%s until %s; Rollout waits for at most %s: run this again later",
		what, e.Until.UTC().Format("15:04:05 UTC"), e.MaxWait)
}

// APIError is an answer of GitHub's that is no success. Message is made safe to print.
type APIError struct {
	Status  int
	Message string
}

func (e *APIError) Error() string {
	text := fmt.Sprintf("GitHub answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// forbidden is a 403 that is about the token's permissions.
func (e *APIError) forbidden() bool { return e.Status == http.StatusForbidden }

// maxMessage bounds what is repeated of GitHub's messages, in bytes.
const maxMessage = 500

// explain turns what go-github or the transport returned into an error of ours: typed, in plain words, and without the
// token, which a proxy between us and GitHub may have put into its answer.
func (c *Client) explain(err error) error {
	var answer *gh.ErrorResponse
	var limit *RateLimitError
	var network *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		return limit
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &answer):
		return c.refused(answer)
	case errors.As(err, &network):
		return &networkError{c.scrub(network.Err.Error())} // without the URL: a signed one is a secret
	}
	return errors.New(c.scrub(err.Error()))
}

// refused is GitHub's answer as an error.
func (c *Client) refused(answer *gh.ErrorResponse) error {
	parts := []string{answer.Message}
	for _, e := range answer.Errors {
		if e.Message != "" {
			parts = append(parts, e.Message)
		}
	}
	out := &APIError{Message: c.scrub(strings.Join(parts, ": "))}
	if answer.Response != nil {
		out.Status = answer.Response.StatusCode
	}
	if out.Status == http.StatusUnauthorized {
		out.Message += " (is there a token in GITHUB_TOKEN, and is it still valid?)"
	}
	return out
}

// scrub makes foreign text safe to print, and hides the token.
func (c *Client) scrub(s string) string {
	if c.token != "" {
		s = strings.ReplaceAll(s, c.token, "***")
	}
	return untrusted.Cut(untrusted.Line(s), maxMessage)
}

// networkError is a request without an answer.
type networkError struct{ message string }

func (e *networkError) Error() string { return "GitHub cannot be reached: " + e.message }

// uncertain reports errors after which nobody knows whether the request was carried out.
func uncertain(err error) bool {
	var answer *APIError
	var network *networkError
	return errors.As(err, &network) || errors.As(err, &answer) && answer.Status >= http.StatusInternalServerError
}

// isStatus reports whether err is an answer with this status.
func isStatus(err error, status int) bool {
	var answer *APIError
	return errors.As(err, &answer) && answer.Status == status
}
