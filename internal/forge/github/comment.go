package github

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	gh "github.com/google/go-github/v66/github"

	"github.com/org/rollout-action/internal/forge/comments"
)

// MaxComment is the maximum size of a comment in bytes, including its marker. GitHub's error
// message mentions 65536 characters, and other limits were observed; as a limit in bytes, it is
// safe in any case.
const MaxComment = 65536

// actionsBot is the author of comments written with a workflow's GITHUB_TOKEN.
const actionsBot = "github-actions[bot]"

// maxPages limits listings: a hundred thousand comments.
const maxPages = 1000

// Comment is a comment on a pull request.
type Comment struct {
	Repo   string // owner/name
	Number int    // of the pull request
	Marker string // the job's name: each job has one comment
	// RunID, Attempt and ValidAt order runs: see comments.Comment.
	RunID   int64
	Attempt int
	ValidAt time.Time
	Body    string // safe Markdown
}

// text returns the comment with its marker.
func (w Comment) text() string { return w.common().Text() }

func (w Comment) common() comments.Comment {
	return comments.Comment{Job: w.Marker, ValidAt: w.ValidAt, RunID: w.RunID, Attempt: w.Attempt, Body: w.Body}
}

// check returns an error for a comment that GitHub would refuse.
func (w Comment) check() error {
	switch size := len(w.text()); {
	case w.Number <= 0:
		return fmt.Errorf("comment: %d is not the number of a pull request", w.Number)
	case w.Marker == "":
		return errors.New("comment: the job has no name")
	case strings.TrimSpace(w.Body) == "":
		return errors.New("comment: the text is empty")
	case size > MaxComment:
		return fmt.Errorf("comment: %d bytes with the marker are more than the %d that GitHub accepts", size, MaxComment)
	}
	return nil
}

// CommentOverhead returns the size of the marker in bytes; the body may use the rest of MaxComment.
func CommentOverhead(w Comment) int { return w.common().Overhead() }

// Upsert ensures that the pull request has exactly one comment of ours for the job: see
// comments.Upsert. Errors: ErrReadOnly, RateLimitError, APIError.
func (c *Client) Upsert(ctx context.Context, w Comment) (comments.Result, error) {
	var none comments.Result
	if err := w.check(); err != nil {
		return none, err
	}
	t, err := c.thread(w.Repo, w.Number)
	if err != nil {
		return none, fmt.Errorf("comment: %w", err)
	}
	if c.token == "" {
		return none, errors.New("comment: there is no token: set GITHUB_TOKEN, or the Action's input github-token")
	}
	result, err := comments.Upsert(ctx, t, w.common(), func(ctx context.Context) error { return c.sleep(ctx, c.settle) })
	if err != nil {
		return result, fmt.Errorf("comment on pull request #%d: %w", w.Number, err)
	}
	return result, nil
}

// HasComment reports whether an earlier run left a comment for the job; see ShouldComment.
func (c *Client) HasComment(ctx context.Context, repo string, number int, job string) (bool, error) {
	t, err := c.thread(repo, number)
	if err != nil {
		return false, err
	}
	found, err := comments.Has(ctx, t, job)
	if err != nil {
		return false, fmt.Errorf("look for the comment on pull request #%d: %w", number, err)
	}
	return found, nil
}

// Thread returns the comments on a pull request, and the function that waits for concurrent writes
// of other runs.
func (c *Client) Thread(repo string, number int) (comments.Thread, func(context.Context) error, error) {
	t, err := c.thread(repo, number)
	return t, func(ctx context.Context) error { return c.sleep(ctx, c.settle) }, err
}

// thread holds the comments on a pull request. It implements comments.Thread.
type thread struct {
	client      *Client
	owner, repo string
	number      int
}

func (c *Client) thread(repo string, number int) (*thread, error) {
	owner, name, err := split(repo)
	if err != nil {
		return nil, err
	}
	return &thread{c, owner, name, number}, nil
}

func (t *thread) Create(ctx context.Context, text string) (comments.Entry, error) {
	made, _, err := t.client.api.Issues.CreateComment(ctx, t.owner, t.repo, t.number, &gh.IssueComment{Body: &text})
	if err := t.client.explain(err); err != nil {
		if uncertain(err) {
			return comments.Entry{}, &comments.UncertainError{Err: err}
		}
		return comments.Entry{}, readOnly(err)
	}
	// GitHub returns the author: the only way for every token to learn its login.
	t.client.remember(made.GetUser().GetLogin())
	return comments.Entry{ID: made.GetID(), URL: made.GetHTMLURL(), Text: text}, nil
}

func (t *thread) Edit(ctx context.Context, id int64, text string) error {
	_, _, err := t.client.api.Issues.EditComment(ctx, t.owner, t.repo, id, &gh.IssueComment{Body: &text})
	err = t.client.explain(err)
	if isStatus(err, http.StatusNotFound) {
		return &comments.UncertainError{Err: err}
	}
	return readOnly(err)
}

func (t *thread) Remove(ctx context.Context, id int64) error {
	_, err := t.client.api.Issues.DeleteComment(ctx, t.owner, t.repo, id)
	if err := t.client.explain(err); err != nil && !isStatus(err, http.StatusNotFound) {
		return readOnly(err)
	}
	return nil
}

// List returns our comments from all pages.
func (t *thread) List(ctx context.Context) ([]comments.Entry, error) {
	self := t.client.whoami(ctx)
	var mine []comments.Entry
	options := &gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{PerPage: perPage}}
	for range maxPages {
		page, resp, err := t.client.api.Issues.ListComments(ctx, t.owner, t.repo, t.number, options)
		if err := t.client.explain(err); err != nil {
			return nil, readOnly(err)
		}
		for _, comment := range page {
			if strings.EqualFold(comment.GetUser().GetLogin(), self) {
				mine = append(mine, comments.Entry{ID: comment.GetID(), URL: comment.GetHTMLURL(), Text: comment.GetBody()})
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			break
		}
	}
	return mine, nil
}

// Ended implements comments.Thread. It needs the permission actions: read, in private repositories.
func (t *thread) Ended(ctx context.Context, run int64) (bool, error) {
	found, _, err := t.client.api.Actions.GetWorkflowRunByID(ctx, t.owner, t.repo, run)
	if err := t.client.explain(err); err != nil {
		return false, err
	}
	return found.GetStatus() == "completed", nil
}

// readOnly adds ErrReadOnly if the token may not write. Other errors with status 403 stay as they
// are: a locked conversation, a limit.
func readOnly(err error) error {
	var answer *APIError
	if errors.As(err, &answer) && answer.forbidden() && strings.Contains(answer.Message, notAccessible) {
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	}
	return err
}

// notAccessible is part of GitHub's message about a missing permission of a workflow's token. There
// is no error code.
const notAccessible = "Resource not accessible by"

// whoami returns the login of this token's comments. Tokens of workflows and apps cannot use GET
// /user, so it asks GraphQL's viewer first. If there is no answer, it assumes a workflow's token;
// if that is wrong, the first created comment has the right login, and Upsert corrects itself.
func (c *Client) whoami(ctx context.Context) string {
	c.mu.Lock()
	self := c.self
	c.mu.Unlock()
	if self != "" {
		return self
	}
	if self = c.viewer(ctx); self == "" {
		if user, _, err := c.api.Users.Get(ctx, ""); err == nil {
			self = user.GetLogin()
		}
	}
	self = cmp.Or(self, actionsBot)
	c.remember(self)
	return self
}

func (c *Client) remember(login string) {
	if login == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.self = login
}

// viewer asks GraphQL for our login; it returns "" if there is no answer.
func (c *Client) viewer(ctx context.Context) string {
	question, err := json.Marshal(map[string]string{"query": "query { viewer { login } }"})
	if err != nil {
		return ""
	}
	ctx = context.WithValue(ctx, repeatable{}, true)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.graphql, bytes.NewReader(question))
	if err != nil {
		return ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	var answer struct {
		Data struct {
			Viewer struct {
				Login string `json:"login"`
			} `json:"viewer"`
		} `json:"data"`
	}
	if _, err := c.api.Do(ctx, req, &answer); err != nil {
		return ""
	}
	return answer.Data.Viewer.Login
}
