package github

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/ghvars"
)

// Getenv returns an environment variable, like os.LookupEnv.
type Getenv = func(string) (string, bool)

// maxEvent limits the event's file. GitHub's limit for payloads is 25 MB.
const maxEvent = 32 << 20

// Actions are the facts of a workflow run. Names of branches and other texts that users choose are
// untrusted.
type Actions struct {
	ServerURL  string // "https://github.com"
	APIURL     string // "https://api.github.com"
	Repository string // owner/name
	Event      string // the event's name: "pull_request"
	Actor      string // who caused the run
	Job        string // the job's id in its workflow
	Workspace  string // where the repository is checked out

	SHA string // the commit that GitHub checks out; for a pull request, a merge commit
	// Before is the commit before SHA: the branch before a push, or the base of a merge group. ""
	// if the event has none.
	Before string
	// Landed means that SHA was added to a branch in this event, or is about to be: by a push, in a
	// merge group, or by merging a pull request.
	Landed bool
	// HeadSHA is the commit to show to users: for a pull request the latest of its branch,
	// otherwise SHA.
	HeadSHA string
	Ref     string // "refs/heads/main", "refs/pull/7/merge"
	// BaseRef is the target branch of a pull request; "" if there is none.
	BaseRef       string
	DefaultBranch string // the repository's, or ""

	// BaseSHA is the base branch of a pull request at the time of the event; "" if there is none.
	BaseSHA string
	// Inputs means that the run was started with inputs, which may name any commit.
	Inputs bool

	// Number is the pull request's; 0: there is none, or (with NeedsPull) FindPull has to find it.
	Number int
	// Named is the number of the pull request that an input of a dispatch names; 0: none does.
	Named int
	// HeadRepository ("owner/name") and HeadBranch are the source of a pull request; "" if there is
	// none, or if that repository was deleted.
	HeadRepository string
	HeadBranch     string
	// Fork means that the head is in another repository.
	Fork bool
	// Dependabot means that Dependabot caused the run, which then has the rights of a fork.
	Dependabot bool

	RunID      int64
	RunNumber  int
	RunAttempt int
	// WorkflowFile is the workflow's file name, "ci.yml"; "" if it is in another repository.
	WorkflowFile string

	// Origin is the run that caused this one by ending (workflow_run); nil otherwise.
	Origin *Origin
}

// Origin is the run that a workflow_run event is about.
type Origin struct {
	RunID        int64
	RunAttempt   int
	Event        string // the event that caused it: "pull_request"
	WorkflowFile string
}

// factsOf returns the facts of a step, from its variables and the event's file. The error means
// that the event could not be read; the facts of the variables are valid in that case. Source:
// docs.github.com, "Variables reference"; actions/runner, GitHubContext.cs.
func factsOf(vars ghvars.Vars) (Actions, error) {
	a := Actions{
		ServerURL:  strings.TrimRight(cmp.Or(vars.ServerURL, "https://github.com"), "/"),
		APIURL:     strings.TrimRight(cmp.Or(vars.APIURL, DefaultAPI), "/"),
		Repository: vars.Repository,
		Event:      vars.EventName,
		Actor:      vars.Actor,
		Job:        vars.Job,
		Workspace:  vars.Workspace,
		SHA:        hash(vars.SHA),
		HeadSHA:    hash(vars.SHA),
		Ref:        vars.Ref,
		BaseRef:    vars.BaseRef,
		HeadBranch: vars.HeadRef,
		RunID:      number(vars.RunID),
		RunNumber:  int(number(vars.RunNumber)),
		RunAttempt: max(1, int(number(vars.RunAttempt))),
		Dependabot: vars.Actor == "dependabot[bot]",
	}
	a.WorkflowFile = workflowFile(vars.WorkflowRef, a.Repository)
	a.Number = pullOf(a.Ref)
	e, err := readEvent(vars.EventPath)
	if err != nil {
		// Without the event, it is unknown whose code this is: assume a fork's.
		a.Fork = isPull(a.Event)
		return a, fmt.Errorf("read the event of this run: %w", err)
	}
	e.teach(&a)
	return a, nil
}

// Environment holds the facts about the run of GitHub Actions that a process belongs to, from the
// environment and the event.
type Environment struct {
	Actions
	Inside bool   // the process belongs to a run; otherwise, there are no facts
	Err    error  // why the event could not be read; the other facts are valid
	Token  string // "" without one
}

// ReadEnvironment reads the environment and the event.
func ReadEnvironment(getenv Getenv) Environment {
	vars := ghvars.Read(getenv)
	if !vars.Actions {
		return Environment{Token: vars.Token}
	}
	return ReadStep(getenv)
}

// ReadStep is ReadEnvironment for a step of the Action, which always belongs to a run: it also has
// the facts if the environment does not say that it is one.
func ReadStep(getenv Getenv) Environment {
	vars := ghvars.Read(getenv)
	e := Environment{Inside: vars.Actions, Token: vars.Token}
	e.Actions, e.Err = factsOf(vars)
	return e
}

// isPull reports whether an event is about a pull request's head.
func isPull(event string) bool { return strings.HasPrefix(event, "pull_request") }

// ReadOnly reports whether GitHub gave this run a read-only token, whatever permissions the
// workflow has.
// Source: docs.github.com, "Events that trigger workflows", "Workflows in forked repositories";
// "Troubleshooting Dependabot".
func (a Actions) ReadOnly() bool {
	switch a.Event {
	case "pull_request", "pull_request_review", "pull_request_review_comment":
		return a.Fork || a.Dependabot
	case "push", "create", "deployment", "deployment_status":
		return a.Dependabot
	}
	return false
}

// NeedsPull reports whether the pull request's number has to be requested; see Client.FindPull.
func (a Actions) NeedsPull() bool {
	return a.Number == 0 && a.Origin != nil && isPull(a.Origin.Event)
}

// SourceRun returns the id of the run that the job belongs to: that of Origin if there is one,
// whose results this run only reports. It is never its own baseline.
func (a Actions) SourceRun() int64 {
	if a.Origin != nil {
		return a.Origin.RunID
	}
	return a.RunID
}

// SourceAttempt returns the attempt of SourceRun.
func (a Actions) SourceAttempt() int {
	if a.Origin != nil {
		return a.Origin.RunAttempt
	}
	return a.RunAttempt
}

// BaselineBranch returns the branch to compare with: a pull request's base, otherwise the default
// branch. With NeedsPull it returns "", because only the pull request names it.
func (a Actions) BaselineBranch() string {
	if a.NeedsPull() {
		return ""
	}
	branch, _ := strings.CutPrefix(a.Ref, "refs/heads/")
	if branch == a.Ref {
		branch = ""
	}
	return cmp.Or(a.BaseRef, a.DefaultBranch, branch)
}

// Query returns the query for the baseline of an evaluated commit on a branch. commit is "" if it
// is unknown; parents are its parents in the checkout, or nil. A commit from a fork's artifact
// counts only if GitHub confirms it.
func (a Actions) Query(branch, commit string, parents []string) Query {
	q := Query{
		Repo: a.Repository, Branch: branch, Exclude: a.SourceRun(), Commit: commit, Parents: parents, Event: a.SHA, Before: a.Before,
	}
	onto := a.BaseRef // the branch that the commit landed on
	landed := a.Landed
	switch {
	case a.Origin != nil:
		q.Event, q.Head, q.Claimed = a.HeadSHA, a.HeadSHA, a.Fork
		landed, onto = a.Origin.Event == "merge_group", branch
		if a.Origin.Event == "push" {
			landed, onto = true, a.HeadBranch
		}
	case isPull(a.Event):
		q.Head = a.HeadSHA
	case a.Event == "push":
		onto = strings.TrimPrefix(a.Ref, "refs/heads/")
	}
	q.Landed = landed && onto == branch && (commit == "" || commit == q.Event)
	return q
}

// RunURL returns the page of this run, or "".
func (a Actions) RunURL() string {
	if a.RunID == 0 || !a.linkable() {
		return ""
	}
	link := fmt.Sprintf("%s/%s/actions/runs/%d", a.ServerURL, a.Repository, a.RunID)
	if a.RunAttempt > 1 {
		link += fmt.Sprintf("/attempts/%d", a.RunAttempt)
	}
	return link
}

// CommitURL returns the page of the head commit, or "".
func (a Actions) CommitURL() string { return a.atHead("commit") }

// FilesURL returns the page of the repository's files at the head commit, or ""; append a path to
// link to a file or directory.
func (a Actions) FilesURL() string { return a.atHead("tree") }

func (a Actions) atHead(kind string) string {
	if a.HeadSHA == "" || !a.linkable() {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s/%s", a.ServerURL, a.Repository, kind, a.HeadSHA)
}

// linkable reports whether links are safe to put into Markdown.
func (a Actions) linkable() bool {
	_, _, err := split(a.Repository)
	return err == nil && plainURL.MatchString(a.ServerURL)
}

var (
	plainURL = regexp.MustCompile(`^https?://[A-Za-z0-9._~:/\[\]-]+$`)
	hexHash  = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	pullRef  = regexp.MustCompile(`^refs/pull/([0-9]{1,9})/(?:merge|head)$`)
)

// hash returns s if it is a commit's hash, otherwise "".
func hash(s string) string {
	if !hexHash.MatchString(s) {
		return ""
	}
	return s
}

// number parses a number; it returns 0 if s is negative or not a number.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func pullOf(ref string) int {
	parts := pullRef.FindStringSubmatch(ref)
	if parts == nil {
		return 0
	}
	return int(number(parts[1]))
}

// workflowFile returns the file name in "owner/name/.github/workflows/ci.yml@refs/heads/main", or
// "" for another repository's workflow, whose runs cannot be listed.
func workflowFile(ref, repo string) string {
	at := strings.Index(ref, "@refs/")
	if at < 0 {
		at = strings.LastIndex(ref, "@")
	}
	if at < 0 {
		return ""
	}
	file, ok := strings.CutPrefix(strings.ToLower(ref[:at]), strings.ToLower(repo)+"/.github/workflows/")
	if !ok || file == "" || strings.Contains(file, "/") {
		return ""
	}
	return path.Base(ref[:at])
}

// event holds the used fields of an event's payload. Source: docs.github.com, "Webhook events and
// payloads".
type event struct {
	Before string `json:"before"` // of a push
	// Of a dispatch: objects, or null.
	Inputs        map[string]any `json:"inputs"`
	ClientPayload map[string]any `json:"client_payload"`
	Repository    *struct {
		DefaultBranch string `json:"default_branch"`
	} `json:"repository"`
	PullRequest *struct {
		Number      int    `json:"number"`
		Merged      bool   `json:"merged"`
		MergeCommit string `json:"merge_commit_sha"`
		Head        struct {
			Ref  string    `json:"ref"`
			SHA  string    `json:"sha"`
			Repo *fullName `json:"repo"`
		} `json:"head"`
		Base struct {
			Ref string `json:"ref"`
			SHA string `json:"sha"`
		} `json:"base"`
	} `json:"pull_request"`
	Issue *struct {
		Number      int       `json:"number"`
		PullRequest *struct{} `json:"pull_request"`
	} `json:"issue"`
	MergeGroup *struct {
		HeadSHA string `json:"head_sha"`
		BaseRef string `json:"base_ref"`
		BaseSHA string `json:"base_sha"`
	} `json:"merge_group"`
	WorkflowRun *struct {
		ID             int64     `json:"id"`
		RunAttempt     int       `json:"run_attempt"`
		Event          string    `json:"event"`
		Path           string    `json:"path"`
		HeadSHA        string    `json:"head_sha"`
		HeadBranch     string    `json:"head_branch"`
		HeadRepository *fullName `json:"head_repository"`
	} `json:"workflow_run"`
}

type fullName struct {
	FullName string `json:"full_name"`
}

// name returns the repository's name, or "" if it was deleted.
func (r *fullName) name() string {
	if r == nil {
		return ""
	}
	return r.FullName
}

var errNoEvent = errors.New("GITHUB_EVENT_PATH is not set")

// readEvent reads the payload. Its size is limited.
func readEvent(file string) (event, error) {
	if file == "" {
		return event{}, errNoEvent
	}
	f, err := os.Open(file)
	if err != nil {
		return event{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEvent+1))
	if err != nil {
		return event{}, err
	}
	if len(data) > maxEvent {
		return event{}, fmt.Errorf("%s is larger than %d MiB", file, maxEvent>>20)
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return event{}, fmt.Errorf("%s: %w", file, err)
	}
	return e, nil
}

// teach sets the facts that only the event contains.
func (e event) teach(a *Actions) {
	if e.Repository != nil {
		a.DefaultBranch = e.Repository.DefaultBranch
	}
	if a.Event == "push" && e.Before != "" && strings.HasPrefix(a.Ref, "refs/heads/") {
		a.Landed = true
		if strings.Trim(e.Before, "0") != "" { // zeros mean that the branch is new
			a.Before = hash(e.Before)
		}
	}
	a.Inputs = len(e.Inputs)+len(e.ClientPayload) > 0
	a.Named = namedPull(e.Inputs, e.ClientPayload)
	switch {
	case e.PullRequest != nil:
		pr := e.PullRequest
		a.BaseSHA = hash(pr.Base.SHA)
		a.Landed = pr.Merged && pr.MergeCommit != "" && pr.MergeCommit == a.SHA
		a.Number = pr.Number
		a.BaseRef = cmp.Or(a.BaseRef, pr.Base.Ref)
		a.HeadSHA = cmp.Or(hash(pr.Head.SHA), a.HeadSHA)
		headFrom(a, pr.Head.Repo.name(), pr.Head.Ref)
	case e.WorkflowRun != nil && a.Event == "workflow_run":
		run := e.WorkflowRun
		file, _, _ := strings.Cut(run.Path, "@") // some servers add the branch
		a.Origin = &Origin{
			RunID: run.ID, RunAttempt: max(1, run.RunAttempt), Event: run.Event,
			WorkflowFile: workflowFile(a.Repository+"/"+file+"@", a.Repository),
		}
		a.HeadSHA = cmp.Or(hash(run.HeadSHA), a.HeadSHA)
		headFrom(a, run.HeadRepository.name(), run.HeadBranch)
	case e.MergeGroup != nil:
		a.HeadSHA = cmp.Or(hash(e.MergeGroup.HeadSHA), a.HeadSHA)
		a.Before, a.Landed = hash(e.MergeGroup.BaseSHA), true
		a.BaseRef = cmp.Or(a.BaseRef, strings.TrimPrefix(e.MergeGroup.BaseRef, "refs/heads/"))
	case e.Issue != nil && e.Issue.PullRequest != nil:
		a.Number = e.Issue.Number
	}
}

// headFrom sets the head's repository and branch. A deleted repository was a fork.
func headFrom(a *Actions, repo, branch string) {
	a.HeadRepository = repo
	a.HeadBranch = branch
	a.Fork = !strings.EqualFold(repo, a.Repository)
}
