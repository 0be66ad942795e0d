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

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// ErrReadOnly means that the token may only read.
var ErrReadOnly = errors.New("the token may not write to pull requests: runs of a fork or of Dependabot get a token that " +
	"only reads (a second workflow on workflow_run can comment for them); for others, give the job the permission pull-requests: write")

// RateLimitError means that GitHub refuses requests for longer than the client waits.
type RateLimitError struct {
	Until     time.Time // when GitHub accepts requests again
	Secondary bool      // too many requests in a short time; otherwise the hourly quota is used up
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

// APIError is an error response of GitHub. Message is safe to print.
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

// forbidden reports whether the status is 403.
func (e *APIError) forbidden() bool { return e.Status == http.StatusForbidden }

// maxMessage is the maximum length of GitHub's messages, in bytes; longer ones are cut.
const maxMessage = 500

// explain converts an error of go-github or the transport into one of this package: typed, in plain
// words, and without the token, which a proxy may have put into its response.
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

// refused converts an error response of GitHub.
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

// networkError is a request without a response.
type networkError struct{ message string }

func (e *networkError) Error() string { return "GitHub cannot be reached: " + e.message }

// uncertain reports whether it is unknown after an error if the request was carried out.
func uncertain(err error) bool {
	var answer *APIError
	var network *networkError
	return errors.As(err, &network) || errors.As(err, &answer) && answer.Status >= http.StatusInternalServerError
}

// isStatus reports whether err is a response with this status.
func isStatus(err error, status int) bool {
	var answer *APIError
	return errors.As(err, &answer) && answer.Status == status
}
