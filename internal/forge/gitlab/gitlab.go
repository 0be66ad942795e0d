// Package gitlab reads the variables of a job of GitLab CI, and writes notes on its merge request.
package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// TokenVariable names the variable with the token that writes notes. A job's own token may not.
const TokenVariable = "GITLAB_TOKEN"

// MaxNote is the largest note that Open's thread writes, in bytes. GitLab accepts a million
// characters, too many to read.
const MaxNote = 65536

const (
	perPage  = "100"
	maxPages = 1000
	settle   = time.Second
)

// Run is a job of GitLab CI. Names are untrusted text. Source: docs.gitlab.com, "Predefined CI/CD
// variables reference".
type Run struct {
	APIURL       string // "https://gitlab.com/api/v4"
	Project      string // the number of the merge request's project
	MergeRequest int    // its number in the project; 0: there is none
	Job          string // the job's name
	JobID        int64  // higher in later jobs
	PipelineID   int64  // the same in all jobs of a pipeline, and higher in later ones; 0: not known
	Token        string
	URL          string // of the pipeline
	ProjectURL   string
	Commit       string
	OnDefault    bool // the pipeline is of the default branch, and of no merge request
}

// FromEnv returns the job that this process belongs to; false if it is not in GitLab CI.
func FromEnv(getenv func(string) (string, bool)) (Run, bool) {
	get := func(name string) string {
		value, _ := getenv(name)
		return strings.TrimSpace(value)
	}
	if get("GITLAB_CI") != "true" {
		return Run{}, false
	}
	r := Run{
		APIURL: get("CI_API_V4_URL"), Project: get("CI_MERGE_REQUEST_PROJECT_ID"), Job: get("CI_JOB_NAME"), Token: get(TokenVariable),
		URL: page(get("CI_PIPELINE_URL")), ProjectURL: page(get("CI_PROJECT_URL")), Commit: get("CI_COMMIT_SHA"),
	}
	if r.Project == "" {
		r.Project = get("CI_PROJECT_ID")
	}
	branch := get("CI_COMMIT_BRANCH") // of pipelines for branches only
	r.OnDefault = branch != "" && branch == get("CI_DEFAULT_BRANCH")
	r.MergeRequest, _ = strconv.Atoi(get("CI_MERGE_REQUEST_IID"))
	r.JobID, _ = strconv.ParseInt(get("CI_JOB_ID"), 10, 64)
	r.PipelineID, _ = strconv.ParseInt(get("CI_PIPELINE_ID"), 10, 64)
	return r, true
}

// page returns a URL of http or https unchanged, and "" for any other text.
func page(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return strings.TrimRight(text, "/")
}

// CommitURL returns the page of the commit; "" if it is not known.
func (r Run) CommitURL() string { return r.below("commit") }

// FilesURL returns the URL of the project's files at the commit; "" if it is not known.
func (r Run) FilesURL() string { return r.below("blob") }

func (r Run) below(kind string) string {
	if r.ProjectURL == "" || r.Commit == "" {
		return ""
	}
	return r.ProjectURL + "/-/" + kind + "/" + url.PathEscape(r.Commit)
}

// Thread holds the notes on a merge request. It implements comments.Thread.
type Thread struct {
	client *client
	run    Run
	self   int64 // the number of the token's user
}

// note holds the used fields of a note in GitLab's API. Source: docs.gitlab.com, "Notes API".
type note struct {
	ID     int64  `json:"id"`
	Body   string `json:"body"`
	System bool   `json:"system"`
	Author user   `json:"author"`
}

type user struct {
	ID int64 `json:"id"`
}

// draft is the body of a request that writes a note.
type draft struct {
	Body string `json:"body"`
}

// Open returns the notes on the run's merge request. It asks GitLab for the token's user.
func Open(ctx context.Context, run Run) (*Thread, error) {
	if page(run.APIURL) == "" {
		return nil, errors.New("the variable CI_API_V4_URL is not the URL of GitLab's API")
	}
	client, err := newClient(run.APIURL, run.Token)
	if err != nil {
		return nil, fmt.Errorf("GitLab's API: %w", err)
	}
	t := &Thread{client: client, run: run}
	var me user
	if _, err := client.do(ctx, http.MethodGet, "user", nil, &me); err != nil {
		return nil, t.explain(err)
	}
	t.self = me.ID
	return t, nil
}

// List implements comments.Thread.
func (t *Thread) List(ctx context.Context) ([]comments.Entry, error) {
	var mine []comments.Entry
	page := "1"
	for range maxPages {
		var notes []note
		header, err := t.client.do(ctx, http.MethodGet, t.notes()+"?"+url.Values{"per_page": {perPage}, "page": {page}}.Encode(), nil, &notes)
		if err != nil {
			return nil, t.explain(err)
		}
		for _, n := range notes {
			if n.Author.ID == t.self && !n.System {
				mine = append(mine, n.entry())
			}
		}
		if page = header.Get("X-Next-Page"); page == "" {
			break
		}
	}
	return mine, nil
}

// Create implements comments.Thread.
func (t *Thread) Create(ctx context.Context, text string) (comments.Entry, error) {
	var n note
	if _, err := t.client.do(ctx, http.MethodPost, t.notes(), draft{withoutCommands(text)}, &n); err != nil {
		return comments.Entry{}, t.afterWrite(err, false)
	}
	return n.entry(), nil
}

// Edit implements comments.Thread.
func (t *Thread) Edit(ctx context.Context, id int64, text string) error {
	_, err := t.client.do(ctx, http.MethodPut, t.note(id), draft{withoutCommands(text)}, nil)
	return t.afterWrite(err, true)
}

// Remove implements comments.Thread.
func (t *Thread) Remove(ctx context.Context, id int64) error {
	_, err := t.client.do(ctx, http.MethodDelete, t.note(id), nil, nil)
	if notFound(err) {
		return nil
	}
	return t.explain(err)
}

// Ended implements comments.Thread. Pipelines of forks are in another project: they are not known.
func (t *Thread) Ended(ctx context.Context, run int64) (bool, error) {
	if t.run.PipelineID == 0 { // then run is the number of a job
		return false, errors.New("the pipeline has no number")
	}
	var found struct {
		Status string `json:"status"`
	}
	path := fmt.Sprintf("projects/%s/pipelines/%d", url.PathEscape(t.run.Project), run)
	if _, err := t.client.do(ctx, http.MethodGet, path, nil, &found); err != nil {
		return false, t.explain(err)
	}
	return slices.Contains([]string{"success", "failed", "canceled", "skipped"}, found.Status), nil
}

// notes returns the path of the merge request's notes below the API.
func (t *Thread) notes() string {
	return fmt.Sprintf("projects/%s/merge_requests/%d/notes", url.PathEscape(t.run.Project), t.run.MergeRequest)
}

func (t *Thread) note(id int64) string { return t.notes() + "/" + strconv.FormatInt(id, 10) }

func (n note) entry() comments.Entry { return comments.Entry{ID: n.ID, Text: n.Body} }

// afterWrite returns the error of a write. missing: a note that does not exist was deleted
// meanwhile.
func (t *Thread) afterWrite(err error, missing bool) error {
	var answer *statusError
	var network *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && answer.status >= http.StatusInternalServerError, missing && notFound(err):
		return &comments.UncertainError{Err: t.explain(err)}
	case errors.As(err, &network) && network.Timeout():
		return &comments.UncertainError{Err: t.explain(err)}
	}
	return t.explain(err)
}

// explain makes an error of the client safe to print, without the token, which a proxy may have put
// into its answer.
func (t *Thread) explain(err error) error {
	var answer *statusError
	var network *url.Error
	text := ""
	switch {
	case errors.As(err, &network):
		text = network.Err.Error()
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case notFound(err):
		text = "GitLab answered 404 Not Found: the token does not see the project or the merge request"
	case errors.As(err, &answer):
		text = "GitLab answered " + answer.Error()
		if status := answer.status; status == http.StatusUnauthorized || status == http.StatusForbidden {
			text += " (" + TokenVariable + " has to be a project access token with the scope api)"
		}
	default:
		text = err.Error()
	}
	if t.run.Token != "" {
		text = strings.ReplaceAll(text, t.run.Token, "***")
	}
	return errors.New(untrusted.Line(text))
}

// withoutCommands returns the text with a zero-width space before each line that GitLab would carry
// out as a quick action, such as /merge. The text contains output of agents and tasks.
func withoutCommands(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if rest := strings.TrimLeft(line, " \t\u00a0"); strings.HasPrefix(rest, "/") {
			lines[i] = line[:len(line)-len(rest)] + "\u200b" + rest
		}
	}
	return strings.Join(lines, "\n")
}

// Settle waits for concurrent writes of other runs to arrive.
func Settle(ctx context.Context) error { return sleep(ctx, settle) }
