package github

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v66/github"
)

// MaxComment is the maximum size of a comment in bytes, including its marker. GitHub's error message mentions 65536 characters,
// and other limits were observed; as a limit in bytes, it is safe in any case.
const MaxComment = 65536

// actionsBot is the author of comments written with a workflow's GITHUB_TOKEN.
const actionsBot = "github-actions[bot]"

const (
	// maxRounds limits how often Upsert checks again after writing.
	maxRounds = 6
	// maxPages limits listings: a hundred thousand comments.
	maxPages = 1000
)

// Comment is a comment on a pull request.
type Comment struct {
	Repo   string // owner/name
	Number int    // of the pull request
	Marker string // the job's name: each job has one comment
	// ValidAt is when the run began, which orders runs: an older one never replaces a newer one. If it is equal, RunID decides,
	// then Attempt.
	ValidAt time.Time
	RunID   int64
	Attempt int
	Body    string // safe Markdown
}

// Action says what Upsert did.
type Action string

// The actions of Upsert.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged" // the comment was up to date
	Outdated  Action = "outdated"  // a newer run has commented
)

// Result is the outcome of Upsert.
type Result struct {
	Action  Action
	ID      int64
	URL     string
	Removed int // duplicates
}

// text returns the comment with its marker.
func (w Comment) text() string {
	return w.marker().String() + "\n" + strings.TrimRight(strings.ToValidUTF8(w.Body, "�"), "\n") + "\n"
}

func (w Comment) marker() marker {
	return marker{job: w.Marker, stamp: stamp{w.ValidAt.Round(0).UTC(), w.RunID, w.Attempt}}
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

// CommentOverhead returns how many bytes of MaxComment the marker takes; the body may use the rest.
func CommentOverhead(w Comment) int { return len(w.marker().String()) + len("\n\n") }

// posted is one of our comments for this job.
type posted struct {
	id    int64
	url   string
	stamp stamp
	text  string // with the marker
	body  string // without the marker
}

// Upsert ensures that the pull request has exactly one comment of ours for the job, that of the newest run: it creates, updates
// or keeps it. It never touches comments of other authors, whatever they contain. Two runs at the same time may leave
// duplicates; Upsert keeps the oldest. As the API has no compare-and-swap, it checks again after writing, when concurrent
// requests of other runs have arrived, until there is nothing to fix.
//
// It does not change a comment, nor its marker, if the body is unchanged. Errors: ErrReadOnly, RateLimitError, APIError.
func (c *Client) Upsert(ctx context.Context, w Comment) (Result, error) {
	if err := w.check(); err != nil {
		return Result{}, err
	}
	owner, repo, err := split(w.Repo)
	if err != nil {
		return Result{}, fmt.Errorf("comment: %w", err)
	}
	if c.token == "" {
		return Result{}, errors.New("comment: there is no token: set GITHUB_TOKEN, or the Action's input github-token")
	}
	u := upsert{client: c, owner: owner, repo: repo, want: w}
	if err := u.run(ctx); err != nil {
		return u.result, fmt.Errorf("comment on pull request #%d: %w", w.Number, err)
	}
	return u.result, nil
}

// HasComment reports whether an earlier run left a comment for the job; see ShouldComment.
func (c *Client) HasComment(ctx context.Context, repo string, number int, job string) (bool, error) {
	owner, name, err := split(repo)
	if err != nil {
		return false, err
	}
	u := upsert{client: c, owner: owner, repo: name, want: Comment{Number: number, Marker: job}}
	mine, err := u.list(ctx)
	if err != nil {
		return false, fmt.Errorf("look for the comment on pull request #%d: %w", number, err)
	}
	return len(mine) > 0, nil
}

// upsert is one call of Upsert.
type upsert struct {
	client      *Client
	owner, repo string
	want        Comment
	created     *posted // listings may not have it yet
	pending     error   // a write that may not have happened
	result      Result
}

func (u *upsert) run(ctx context.Context) error {
	for round := range maxRounds {
		if round > 0 {
			if err := u.client.sleep(ctx, u.client.settle); err != nil {
				return err
			}
		}
		mine, err := u.list(ctx)
		if err != nil {
			return err
		}
		move := decide(mine, u.want, round > 0)
		u.note(move, round)
		if move.nothing() {
			return nil
		}
		u.pending = nil
		if err := u.do(ctx, move); err != nil {
			return err
		}
	}
	return u.pending // nil: other runs keep writing, and their comments are as good
}

// move is the next change to the comments.
type move struct {
	create   bool
	keep     posted
	edit     string // the new text of keep; "" for no change
	remove   []posted
	outdated bool // a newer run has commented
}

func (m move) nothing() bool { return !m.create && m.edit == "" && len(m.remove) == 0 }

// decide returns the next move, given our comments, oldest first. written: this run has written already; then the marker alone
// decides whether the comment is there, because GitHub may return slightly different text.
func decide(mine []posted, want Comment, written bool) move {
	if len(mine) == 0 {
		return move{create: true}
	}
	m := move{keep: mine[0], remove: mine[1:]}
	newest := slices.MaxFunc(mine, func(a, b posted) int { return a.stamp.compare(b.stamp) })
	ours := posted{stamp: want.marker().stamp, text: want.text(), body: want.Body}
	target := ours
	if newest.stamp.compare(ours.stamp) > 0 {
		m.outdated, target = true, newest
	}
	older := m.keep.stamp.compare(target.stamp) < 0
	differs := !same(m.keep.body, target.body)
	switch {
	case written && !older:
		differs = false
	case older && len(m.remove) > 0:
		differs = true // only the removed comment may have the newer stamp
	}
	if differs {
		m.edit = target.text
	}
	return m
}

// same compares bodies, ignoring changes that GitHub makes.
func same(a, b string) bool {
	plain := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return plain(a) == plain(b)
}

// note updates the result: the first round determines the action, later ones only fix up.
func (u *upsert) note(m move, round int) {
	if !m.create {
		u.result.ID, u.result.URL = m.keep.id, m.keep.url
	}
	switch {
	case m.outdated:
		u.result.Action = Outdated
	case round > 0:
	case m.create:
		u.result.Action = Created
	case m.edit != "":
		u.result.Action = Updated
	default:
		u.result.Action = Unchanged
	}
}

// do carries out the move.
func (u *upsert) do(ctx context.Context, m move) error {
	if m.create {
		return u.create(ctx)
	}
	if m.edit != "" {
		if err := u.edit(ctx, m.keep.id, m.edit); err != nil {
			return err
		}
	}
	for _, p := range m.remove {
		_, err := u.client.api.Issues.DeleteComment(ctx, u.owner, u.repo, p.id)
		if err := u.client.explain(err); err != nil && !isStatus(err, http.StatusNotFound) {
			return readOnly(err)
		}
		if u.created != nil && u.created.id == p.id {
			u.created = nil
		}
		u.result.Removed++
	}
	return nil
}

func (u *upsert) create(ctx context.Context) error {
	text := u.want.text()
	made, _, err := u.client.api.Issues.CreateComment(ctx, u.owner, u.repo, u.want.Number, &gh.IssueComment{Body: &text})
	if err := u.client.explain(err); err != nil {
		if uncertain(err) {
			u.pending = err
			return nil // the next round checks whether it exists
		}
		return readOnly(err)
	}
	// GitHub returns the author: the only answer to "who am I" that every token gets.
	u.client.remember(made.GetUser().GetLogin())
	p := posted{id: made.GetID(), url: made.GetHTMLURL(), stamp: u.want.marker().stamp, text: text, body: u.want.Body}
	u.created = &p
	u.result.ID, u.result.URL = p.id, p.url
	return nil
}

func (u *upsert) edit(ctx context.Context, id int64, text string) error {
	_, _, err := u.client.api.Issues.EditComment(ctx, u.owner, u.repo, id, &gh.IssueComment{Body: &text})
	err = u.client.explain(err)
	if isStatus(err, http.StatusNotFound) {
		u.pending = err
		return nil // deleted meanwhile: the next round creates a new one
	}
	return readOnly(err)
}

// readOnly adds ErrReadOnly if the token may not write. Other errors with status 403 stay as they are: a locked conversation, a
// limit.
func readOnly(err error) error {
	var answer *APIError
	if errors.As(err, &answer) && answer.forbidden() && strings.Contains(answer.Message, notAccessible) {
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	}
	return err
}

// notAccessible is part of GitHub's message about a missing permission of a workflow's token. There is no error code.
const notAccessible = "Resource not accessible by"

// list returns our comments for the job from all pages, oldest first.
func (u *upsert) list(ctx context.Context) ([]posted, error) {
	self := u.client.whoami(ctx)
	var mine []posted
	options := &gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{PerPage: perPage}}
	for range maxPages {
		page, resp, err := u.client.api.Issues.ListComments(ctx, u.owner, u.repo, u.want.Number, options)
		if err := u.client.explain(err); err != nil {
			return nil, readOnly(err)
		}
		for _, comment := range page {
			m, body, ok := parseMarker(comment.GetBody())
			if ok && m.job == u.want.Marker && strings.EqualFold(comment.GetUser().GetLogin(), self) {
				mine = append(mine, posted{comment.GetID(), comment.GetHTMLURL(), m.stamp, comment.GetBody(), body})
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			break
		}
	}
	mine = u.withCreated(mine)
	slices.SortFunc(mine, func(a, b posted) int { return cmp.Compare(a.id, b.id) })
	return slices.CompactFunc(mine, func(a, b posted) bool { return a.id == b.id }), nil
}

// withCreated adds the comment that this call created if the listing does not have it yet. Otherwise it would be created
// again.
func (u *upsert) withCreated(mine []posted) []posted {
	if u.created == nil || slices.ContainsFunc(mine, func(p posted) bool { return p.id == u.created.id }) {
		return mine
	}
	return append(mine, *u.created)
}

// whoami returns the login of this token's comments. Tokens of workflows and apps cannot use GET /user, so it asks GraphQL's
// viewer first. If there is no answer, it assumes a workflow's token; if that is wrong, the first created comment has the right
// login, and Upsert corrects itself.
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
