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

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// ErrNoBaseline means that there is no result to compare with; the error's text is a sentence for
// users with the reason. Other errors of FindBaseline mean that the search failed.
var ErrNoBaseline = errors.New("there is no baseline")

// NoBaseline is an ErrNoBaseline with its reason.
type NoBaseline struct{ Reason string }

func (e *NoBaseline) Error() string { return e.Reason }

// Is reports whether target is ErrNoBaseline.
func (e *NoBaseline) Is(target error) bool { return target == ErrNoBaseline }

func noBaseline(format string, args ...any) error {
	return &NoBaseline{Reason: untrusted.Line(fmt.Sprintf(format, args...))}
}

// Query describes the baseline to find.
type Query struct {
	Repo         string // owner/name
	WorkflowFile string // "ci.yml": the workflow whose runs to search
	Branch       string // the base branch
	Artifact     string // the artifact's name
	Exclude      int64  // the current run
	Run          int64  // the only run whose result counts, as an earlier search found it; 0: any

	// Commit is the evaluated commit; "" is the latest of the branch. Parents are its parents in
	// the checkout; if nil, FindBaseline asks GitHub for them when needed.
	Commit  string
	Parents []string
	// Claimed means that Commit comes from an untrusted artifact: it counts only if it is Head or a
	// merge of Head.
	Claimed bool
	// Event is the commit of the run as GitHub knows it. FindBaseline uses it if the repository
	// does not have Commit.
	Event string
	Head  string // in a pull request, the latest commit of its branch
	// Landed means that Commit was added to Branch in this event. It is compared with Before or, if
	// that is "" or gone, with Commit's first parent.
	Landed bool
	Before string
}

// Found is a baseline.
type Found struct {
	Path   string // the result.json
	Branch string
	Commit string // the commit of the run
	RunID  int64
	RunURL string
	// Base is the commit of the branch to compare with, and Side is its relation to the evaluated
	// commit.
	Base string
	Side Side
	// Behind is the number of commits between Commit and Base.
	Behind int
	// Pinned: the query named the run, so there is no Base.
	Pinned bool
	// Assumed is the commit that was used because the evaluated one is unknown; "" otherwise.
	Assumed string
	// Newer is a nearer run that was not taken, because its result is incomplete; 0: none.
	// NewerCommit is its commit.
	Newer       int64
	NewerCommit string
}

// Side is the relation of the base to the evaluated commit.
type Side string

// The sides.
const (
	MergeBase  Side = "the merge base"                             // a branch was evaluated
	MergedWith Side = "the base of the merge that was evaluated"   // a merge into the branch was
	LandedOn   Side = "what the branch was before"                 // a commit that has just come onto the branch was
	Itself     Side = "the evaluated commit, which the branch has" // nothing but the branch was
)

// Exact reports whether the baseline is the result of Base itself.
func (f Found) Exact() bool { return f.Behind == 0 }

// String returns a phrase that follows "compared with": "main at 1a2b3c4 (the merge base; run
// 123)".
func (f Found) String() string {
	base := string(f.Side)
	switch {
	case f.Pinned:
		base = "the run that was named"
	case f.Side == Itself && f.Exact():
		base = "an earlier run of this commit"
	case f.Behind == 1:
		base = fmt.Sprintf("1 commit before %s, %s", base, short(f.Base))
	case !f.Exact():
		base = fmt.Sprintf("%d commits before %s, %s", f.Behind, base, short(f.Base))
	}
	if f.Assumed != "" {
		base += "; the checked-out commit is unknown, assuming " + short(f.Assumed)
	}
	newer := ""
	if f.Newer != 0 {
		newer = fmt.Sprintf("; the newer run %d at %s is incomplete", f.Newer, short(f.NewerCommit))
	}
	return untrusted.Line(fmt.Sprintf("%s at %s (%s; run %d%s)", f.Branch, short(f.Commit), base, f.RunID, newer))
}

func short(sha string) string { return sha[:min(len(sha), 7)] }

const (
	// maxAncestorPages is how far back to search for a baseline, in pages of commits.
	maxAncestorPages = 5
	// maxRunPages limits the listing of runs, for each event.
	maxRunPages = 3
	// maxCandidates is the maximum number of runs that are checked for an artifact.
	maxCandidates = 30
)

// trustedEvents are the events whose runs may provide a baseline. Runs of pull requests may not:
// their artifacts come from code that has not been accepted.
var trustedEvents = []string{"push", "schedule", manual}

// manual is the event of runs that somebody started, with inputs of their choice.
const manual = "workflow_dispatch"

// FindBaseline finds the result of an earlier run on the base branch and writes it to dir as
// result.json.
//
// It takes the result of the base of the evaluated commit: for a merge, as pull requests are
// checked out, the parent on the branch; for a branch, the merge base. If there is none, it takes
// the nearest ancestor with an unexpired artifact: the newest completed run of that commit, whether
// its gate passed or not. It does not use runs of later commits, which would attribute the changes
// of others to this one. If only those exist, the reason says so and suggests to merge the branch.
//
// A run that evaluated another commit than one of the branch is not used (see evaluatedBranch).
//
// A complete result is preferred to a nearer one that lacks trials: it compares more tasks.
//
// It only uses the API; the token needs contents: read and actions: read.
func (c *Client) FindBaseline(ctx context.Context, q Query, dir string) (Found, error) {
	owner, repo, err := split(q.Repo)
	if err != nil {
		return Found{}, fmt.Errorf("find the baseline: %w", err)
	}
	if err := q.check(); err != nil {
		return Found{}, err
	}
	s := search{client: c, owner: owner, repo: repo, query: q, dir: dir}
	found, err := s.run(ctx)
	found, err = s.orIncomplete(ctx, found, err)
	if err == nil || errors.Is(err, ErrNoBaseline) {
		return found, err
	}
	return Found{}, fmt.Errorf("find the baseline: %w", err)
}

// check returns an ErrNoBaseline if the query is incomplete.
func (q Query) check() error {
	switch {
	case q.WorkflowFile == "":
		return noBaseline("it is unknown which workflow's runs to search")
	case q.Branch == "":
		return noBaseline("it is unknown which branch to compare with")
	case q.Artifact == "":
		return noBaseline("the name of the baseline's artifact is missing")
	}
	return nil
}

// search is one call of FindBaseline or FindResults.
type search struct {
	client      *Client
	owner, repo string
	query       Query
	dir         string

	base    string // Found.Base
	side    Side
	assumed string
	tried   map[int64]bool // runs whose artifacts were checked
	expired int            // runs whose artifact has expired
	broken  error          // the last artifact that could not be used
	// incomplete is the nearest result that lacks trials; nil: none. Its Path is not yet that of
	// the baseline.
	incomplete *Found
}

func (s *search) run(ctx context.Context) (Found, error) {
	s.tried = map[int64]bool{}
	if s.query.Run != 0 {
		return s.pinned(ctx)
	}
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
		return Found{}, noBaseline("%s has not completed a run on %s yet", s.query.WorkflowFile, s.query.Branch)
	}
	return s.nearest(ctx, runs)
}

// pinned returns the result of the run that the query names, if it may still provide a baseline.
func (s *search) pinned(ctx context.Context) (Found, error) {
	id := s.query.Run
	r, _, err := s.client.api.Actions.GetWorkflowRunByID(ctx, s.owner, s.repo, id)
	if err := s.client.explain(err); err != nil {
		return Found{}, s.unreadable(err, fmt.Sprintf("run %d", id))
	}
	if !s.usable(r) {
		return Found{}, noBaseline("run %d is no completed run of %s by a push, a schedule or a person", id, s.query.Branch)
	}
	path, err := s.fetch(ctx, run{r.GetID(), r.GetHeadSHA(), r.GetHTMLURL(), r.GetEvent()})
	switch {
	case err != nil:
		return Found{}, err
	case path != "":
		return Found{Path: path, Branch: s.query.Branch, Commit: r.GetHeadSHA(), RunID: id, RunURL: r.GetHTMLURL(), Pinned: true}, nil
	case s.broken != nil:
		return Found{}, noBaseline("the artifact %q of run %d cannot be used: %v", s.query.Artifact, id, s.broken)
	case s.expired > 0:
		return Found{}, noBaseline("the artifact %q of run %d has expired", s.query.Artifact, id)
	}
	return Found{}, noBaseline("run %d has no artifact %q", id, s.query.Artifact)
}

// unreadable turns a refusal by GitHub into a reason, and returns transient errors unchanged.
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
		return noBaseline("GitHub does not show %s: it does not exist yet, or the token may not read it "+
			"(the job needs the permissions contents: read and actions: read)", what)
	}
	return err
}

// run is a workflow run that may provide a baseline.
type run struct {
	id    int64
	sha   string
	url   string
	event string
}

type runFilter struct{ sha, event string }

// runs lists the completed runs of the workflow on the base branch, newest first.
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
				out = append(out, run{r.GetID(), r.GetHeadSHA(), r.GetHTMLURL(), r.GetEvent()})
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			break
		}
	}
	slices.SortFunc(out, func(a, b run) int { return cmp.Compare(b.id, a.id) })
	return out, nil
}

// usable checks the run again: a run of a fork's pull request may come from a branch with our
// branch's name. Failed runs count, because a failed gate has a result, too; cancelled runs do not,
// because their results are partial.
func (s *search) usable(r *gh.WorkflowRun) bool {
	return r.GetID() != s.query.Exclude && r.GetStatus() == "completed" &&
		slices.Contains([]string{"success", "failure", "neutral"}, r.GetConclusion()) &&
		slices.Contains(trustedEvents, r.GetEvent()) && r.GetHeadBranch() == s.query.Branch &&
		strings.EqualFold(r.GetHeadRepository().GetFullName(), s.query.Repo)
}

// nearest tries the runs of the base's ancestors, nearest first.
func (s *search) nearest(ctx context.Context, runs []run) (found Found, err error) {
	ok := false
	reached, err := s.walk(ctx, runs, func(of []run, depth int) (bool, error) {
		var err error
		found, ok, err = s.firstOf(ctx, of, depth)
		return ok, err
	})
	if ok || err != nil {
		return found, err
	}
	return Found{}, s.why(runs, reached)
}

// walk calls try with the runs of the base and of each of its ancestors, nearest first, until try
// returns true or an error. It returns how many of the runs it came to.
func (s *search) walk(ctx context.Context, runs []run, try func(of []run, depth int) (bool, error)) (reached int, err error) {
	byCommit := map[string][]run{}
	for _, r := range runs {
		byCommit[r.sha] = append(byCommit[r.sha], r)
	}
	history := ancestry{}
	options := &gh.CommitsListOptions{SHA: s.base, ListOptions: gh.ListOptions{PerPage: perPage}}
	for range maxAncestorPages {
		page, resp, err := s.client.api.Repositories.ListCommits(ctx, s.owner, s.repo, options)
		if err := s.client.explain(err); err != nil {
			return reached, s.unreadable(err, "the commits before "+short(s.base))
		}
		for _, commit := range page {
			history.add(commit)
		}
		for _, at := range history.from(s.base) {
			candidates := byCommit[at.sha]
			reached += len(candidates)
			if done, err := try(candidates, at.depth); done || err != nil {
				return reached, err
			}
			delete(byCommit, at.sha)
		}
		if options.Page = resp.NextPage; options.Page == 0 || len(byCommit) == 0 {
			break
		}
	}
	return reached, nil
}

// why returns the reason that no run could be used.
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
	return noBaseline("%s ran on %s only for commits that are not among the last ones before %s (the newest is run %d at %s), "+
		"and a later run would mix in changes of others: merge %s into this branch, or rebase it",
		file, branch, at, newest.id, short(newest.sha), branch)
}

// firstOf returns the first usable result of these runs, which are sorted newest first.
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
		if path == "" {
			continue
		}
		found := Found{
			Path: path, Branch: s.query.Branch, Commit: r.sha, RunID: r.id, RunURL: r.url,
			Base: s.base, Side: s.side, Behind: behind, Assumed: s.assumed,
		}
		if !lacksTrials(path) {
			return found, true, nil
		}
		if err := s.setAside(found); err != nil {
			return Found{}, false, err
		}
	}
	return Found{}, false, nil
}

// fetch returns the run's result from its artifact, or "" if there is no usable one. An error ends
// the search.
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
		if err == nil {
			err = s.evaluatedBranch(ctx, r, path)
		}
		switch {
		case err == nil:
			return path, nil
		case errors.Is(err, errElsewhere):
			return "", s.refuse(r, path, err)
		case isStatus(err, http.StatusGone):
			expired = true // it expired after the listing
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

// artifacts lists the run's artifacts with the query's name, newest first.
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
	// An old server ignores the filter and returns all.
	out := slices.DeleteFunc(list.Artifacts, func(a *gh.Artifact) bool { return a.GetName() != s.query.Artifact })
	slices.SortFunc(out, func(a, b *gh.Artifact) int { return cmp.Compare(b.GetID(), a.GetID()) })
	return out, nil
}
