package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"github.com/org/rollout-action/internal/untrusted"
)

// ErrNoBaseline says that there is nothing to compare with; the error's text is a sentence for people that says why.
// Other errors of FindBaseline mean that it could not look.
var ErrNoBaseline = errors.New("there is no baseline")

// NoBaseline is ErrNoBaseline with its reason.
type NoBaseline struct{ Reason string }

func (e *NoBaseline) Error() string { return e.Reason }

// Is makes errors.Is(err, ErrNoBaseline) true.
func (e *NoBaseline) Is(target error) bool { return target == ErrNoBaseline }

func noBaseline(format string, args ...any) error {
	return &NoBaseline{Reason: untrusted.Line(fmt.Sprintf(format, args...))}
}

// Query says what to look for.
type Query struct {
	Repo         string // owner/name
	WorkflowFile string // "ci.yml": the workflow whose runs are looked at
	Branch       string // the base branch
	Artifact     string // its name
	Exclude      int64  // the run that asks

	// Commit is the commit that was evaluated; "" is the branch's own latest. Parents are its parents as its checkout has
	// them; without them GitHub is asked where they matter.
	Commit  string
	Parents []string
	// Claimed says that Commit comes from a stranger's artifact: it counts only if it is Head, or a merge of Head.
	Claimed bool
	// Event is the commit that the run is about as far as GitHub knows, which is taken if Commit is none of the repository's.
	Event string
	Head  string // in a pull request, the latest commit of its branch
	// Landed says that Commit has come onto Branch in this event. It is compared with what Branch was before: with
	// Before or, if that is "" or gone, with Commit's first parent.
	Landed bool
	Before string
}

// Found is a baseline.
type Found struct {
	Path   string // the result.json
	Branch string
	Commit string // what the run was about
	RunID  int64
	RunURL string
	// Base is the branch's side of what was evaluated, and Side says which commit that is.
	Base string
	Side Side
	// Behind is how many commits lie between Commit and Base.
	Behind int
	// Assumed is the commit that was taken for the evaluated one, because that was not known here; "" if it was.
	Assumed string
}

// Side says which commit is the branch's side of what was evaluated.
type Side string

// The sides.
const (
	MergeBase  Side = "the merge base"                             // a branch was evaluated
	MergedWith Side = "the base of the merge that was evaluated"   // a merge into the branch was
	LandedOn   Side = "what the branch was before"                 // a commit that has just come onto the branch was
	Itself     Side = "the evaluated commit, which the branch has" // nothing but the branch was
)

// Exact reports whether the baseline is that of Base itself.
func (f Found) Exact() bool { return f.Behind == 0 }

// String is for a sentence that begins with "compared with": "main at 1a2b3c4 (the merge base; run 123)".
func (f Found) String() string {
	base := string(f.Side)
	switch {
	case f.Side == Itself && f.Exact():
		base = "an earlier run of this commit"
	case f.Behind == 1:
		base = fmt.Sprintf("1 commit before %s, %s", base, short(f.Base))
	case !f.Exact():
		base = fmt.Sprintf("%d commits before %s, %s", f.Behind, base, short(f.Base))
	}
	if f.Assumed != "" {
		base += "; it is not known what was checked out, commit " + short(f.Assumed) + " is assumed"
	}
	return untrusted.Line(fmt.Sprintf("%s at %s (%s; run %d)", f.Branch, short(f.Commit), base, f.RunID))
}

func short(sha string) string { return sha[:min(len(sha), 7)] }

const (
	// maxAncestorPages is how far back a baseline may lie, in pages of commits.
	maxAncestorPages = 5
	// maxRunPages bounds the listing of each event's runs.
	maxRunPages = 3
	// maxCandidates bounds how many runs are asked for their artifact.
	maxCandidates = 30
)

// trustedEvents are what runs on the base branch are started by. The runs of pull requests are never looked at: what they
// leave was made by code that nobody has accepted yet.
var trustedEvents = []string{"push", "schedule", "workflow_dispatch"}

// FindBaseline looks for the result of an earlier run on the base branch, and writes it to dir as result.json.
//
// It is that of the branch's side of what was evaluated (of a merge, as pull requests are checked out, the parent that is
// the branch's; of a branch, the merge base) or, if there is none, of its nearest ancestor whose artifact has not
// expired: the newest run of that commit which came to an end, whether the gate passed or not. Runs of later commits
// are not used: they would show what others changed since as if this change had. If only those exist, the
// reason says so, and that merging the branch into this one helps.
//
// Only the API is asked; the token needs contents: read and actions: read.
func (c *Client) FindBaseline(ctx context.Context, q Query, dir string) (Found, error) {
	owner, repo, err := split(q.Repo)
	if err != nil {
		return Found{}, fmt.Errorf("find the baseline: %w", err)
	}
	switch {
	case q.WorkflowFile == "":
		return Found{}, noBaseline("it is not known which workflow's runs to look at")
	case q.Branch == "":
		return Found{}, noBaseline("it is not known which branch to compare with")
	case q.Artifact == "":
		return Found{}, noBaseline("no artifact is named to take the baseline from")
	}
	s := search{client: c, owner: owner, repo: repo, query: q, dir: dir}
	found, err := s.run(ctx)
	if err == nil || errors.Is(err, ErrNoBaseline) {
		return found, err
	}
	return Found{}, fmt.Errorf("find the baseline: %w", err)
}

// search is one call of FindBaseline.
type search struct {
	client      *Client
	owner, repo string
	query       Query
	dir         string

	base    string // Found.Base
	side    Side
	assumed string
	tried   map[int64]bool // runs whose artifact was looked for
	expired int            // runs whose artifact has expired
	broken  error          // the last artifact that could not be used
}

func (s *search) run(ctx context.Context) (Found, error) {
	s.tried = map[int64]bool{}
	if err := s.findBase(ctx); err != nil {
		return Found{}, err
	}
	// The usual case first: three requests, however many runs there are.
	runs, err := s.runs(ctx, runFilter{sha: s.base})
	if err != nil {
		return Found{}, err
	}
	if found, ok, err := s.firstOf(ctx, runs, 0); ok || err != nil {
		return found, err
	}
	for _, event := range trustedEvents {
		more, err := s.runs(ctx, runFilter{event: event})
		if err != nil {
			return Found{}, err
		}
		runs = append(runs, more...)
	}
	if len(runs) == 0 {
		return Found{}, noBaseline("%s has not run to its end on %s yet", s.query.WorkflowFile, s.query.Branch)
	}
	return s.nearest(ctx, runs)
}

// unreadable turns a refusal into a reason, and keeps errors that may be gone next time.
func (s *search) unreadable(err error, what string) error {
	var answer *APIError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Status {
	case http.StatusUnauthorized:
		return noBaseline("GitHub does not show %s: %v", what, err)
	case http.StatusForbidden:
		return noBaseline("GitHub does not show %s: give the job the permissions contents: read and actions: read (%v)", what, err)
	case http.StatusNotFound, http.StatusUnprocessableEntity:
		return noBaseline("GitHub does not show %s: nothing is there yet, or the token may not see it "+
			"(the job needs the permissions contents: read and actions: read)", what)
	}
	return err
}

// run is a workflow run that a baseline may come from.
type run struct {
	id  int64
	sha string
	url string
}

type runFilter struct{ sha, event string }

// runs lists runs of the workflow on the base branch that came to an end, newest first.
func (s *search) runs(ctx context.Context, filter runFilter) ([]run, error) {
	options := &gh.ListWorkflowRunsOptions{
		Branch: s.query.Branch, Event: filter.event, HeadSHA: filter.sha, Status: "completed", ExcludePullRequests: true,
		ListOptions: gh.ListOptions{PerPage: perPage},
	}
	var out []run
	for range maxRunPages {
		page, resp, err := s.client.api.Actions.ListWorkflowRunsByFileName(ctx, s.owner, s.repo,
			url.PathEscape(s.query.WorkflowFile), options)
		if err := s.client.explain(err); err != nil {
			return nil, s.unreadable(err, "the runs of "+s.query.WorkflowFile)
		}
		for _, r := range page.WorkflowRuns {
			if s.usable(r) {
				out = append(out, run{r.GetID(), r.GetHeadSHA(), r.GetHTMLURL()})
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			break
		}
	}
	slices.SortFunc(out, func(a, b run) int { return cmp.Compare(b.id, a.id) })
	return out, nil
}

// usable checks again what was asked for: a run of a fork's pull request may come from a branch with our branch's name.
// A failed run counts, for a red gate is a result too; a cancelled one does not, for it is a part of one.
func (s *search) usable(r *gh.WorkflowRun) bool {
	return r.GetID() != s.query.Exclude && r.GetStatus() == "completed" &&
		slices.Contains([]string{"success", "failure", "neutral"}, r.GetConclusion()) &&
		slices.Contains(trustedEvents, r.GetEvent()) && r.GetHeadBranch() == s.query.Branch &&
		strings.EqualFold(r.GetHeadRepository().GetFullName(), s.query.Repo)
}

// nearest tries the runs of the merge base's ancestors, the nearest first.
func (s *search) nearest(ctx context.Context, runs []run) (Found, error) {
	byCommit := map[string][]run{}
	for _, r := range runs {
		byCommit[r.sha] = append(byCommit[r.sha], r)
	}
	history := ancestry{}
	reached := 0
	options := &gh.CommitsListOptions{SHA: s.base, ListOptions: gh.ListOptions{PerPage: perPage}}
	for range maxAncestorPages {
		page, resp, err := s.client.api.Repositories.ListCommits(ctx, s.owner, s.repo, options)
		if err := s.client.explain(err); err != nil {
			return Found{}, s.unreadable(err, "the commits before "+short(s.base))
		}
		for _, commit := range page {
			history.add(commit)
		}
		for _, at := range history.from(s.base) {
			candidates := byCommit[at.sha]
			reached += len(candidates)
			found, ok, err := s.firstOf(ctx, candidates, at.depth)
			if ok || err != nil {
				return found, err
			}
			delete(byCommit, at.sha)
		}
		if options.Page = resp.NextPage; options.Page == 0 || len(byCommit) == 0 {
			break
		}
	}
	return Found{}, s.why(runs, reached)
}

// why is the reason when no run was of use.
func (s *search) why(runs []run, reached int) error {
	file, branch := s.query.WorkflowFile, s.query.Branch
	at := fmt.Sprintf("%s, %s", s.side, short(s.base))
	switch {
	case s.broken != nil:
		return noBaseline("no artifact %q of %s on %s can be used: %v", s.query.Artifact, file, branch, s.broken)
	case s.expired > 0:
		return noBaseline("the artifacts %q of %s on %s up to %s have expired: run the workflow on %s again",
			s.query.Artifact, file, branch, at, branch)
	case reached > 0:
		return noBaseline("no run of %s on %s up to %s has an artifact %q", file, branch, at, s.query.Artifact)
	}
	newest := slices.MaxFunc(runs, func(a, b run) int { return cmp.Compare(a.id, b.id) })
	return noBaseline("%s ran on %s only for commits that are not among the last before %s (the newest is run %d at %s), "+
		"and what others changed must not be taken for this change: merge %s into this branch, or rebase it",
		file, branch, at, newest.id, short(newest.sha), branch)
}

// firstOf is the result of the first of these runs, newest first, that has one.
func (s *search) firstOf(ctx context.Context, runs []run, behind int) (Found, bool, error) {
	for _, r := range runs {
		if s.tried[r.id] || len(s.tried) >= maxCandidates {
			continue
		}
		s.tried[r.id] = true
		path, err := s.fetch(ctx, r)
		if err != nil {
			return Found{}, false, err
		}
		if path != "" {
			return Found{
				Path: path, Branch: s.query.Branch, Commit: r.sha, RunID: r.id, RunURL: r.url,
				Base: s.base, Side: s.side, Behind: behind, Assumed: s.assumed,
			}, true, nil
		}
	}
	return Found{}, false, nil
}

// fetch takes the run's result from its artifact; "" if it has none that can be used. An error ends the search.
func (s *search) fetch(ctx context.Context, r run) (string, error) {
	artifacts, err := s.artifacts(ctx, r.id)
	if err != nil {
		return "", err
	}
	expired := len(artifacts) > 0
	for _, a := range artifacts {
		if a.GetExpired() {
			continue
		}
		expired = false
		path, err := s.client.fetchResult(ctx, s.owner, s.repo, a, s.dir)
		switch {
		case err == nil:
			return path, nil
		case isStatus(err, http.StatusGone):
			expired = true // since it was listed
		case isStatus(err, http.StatusForbidden), isStatus(err, http.StatusUnauthorized):
			return "", s.unreadable(err, "the artifact of run "+fmt.Sprint(r.id))
		case isStatus(err, http.StatusNotFound), errors.Is(err, errBadArtifact):
			s.broken = fmt.Errorf("run %d: %w", r.id, err)
		default:
			return "", err
		}
	}
	if expired {
		s.expired++
	}
	return "", nil
}

// artifacts lists the run's artifacts of the name, newest first.
func (s *search) artifacts(ctx context.Context, id int64) ([]*gh.Artifact, error) {
	// go-github's method has no filter by name, and a run may have hundreds.
	path := fmt.Sprintf("repos/%s/%s/actions/runs/%d/artifacts?per_page=%d&name=%s",
		s.owner, s.repo, id, perPage, url.QueryEscape(s.query.Artifact))
	req, err := s.client.api.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	var list gh.ArtifactList
	_, err = s.client.api.Do(ctx, req, &list)
	if err := s.client.explain(err); err != nil {
		if isStatus(err, http.StatusNotFound) {
			return nil, nil // the run was deleted meanwhile
		}
		return nil, s.unreadable(err, fmt.Sprintf("the artifacts of run %d", id))
	}
	// A server too old for the filter returns all.
	out := slices.DeleteFunc(list.Artifacts, func(a *gh.Artifact) bool { return a.GetName() != s.query.Artifact })
	slices.SortFunc(out, func(a, b *gh.Artifact) int { return cmp.Compare(b.GetID(), a.GetID()) })
	return out, nil
}
