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
)

// Getenv looks an environment variable up, as os.LookupEnv does.
type Getenv = func(string) (string, bool)

// maxEvent bounds the event's file. GitHub's own bound for payloads is 25 MB.
const maxEvent = 32 << 20

// Actions are the facts of a workflow's run. Names of branches, and everything else that people may choose, is
// untrusted text.
type Actions struct {
	ServerURL  string // "https://github.com"
	APIURL     string // "https://api.github.com"
	Repository string // owner/name
	Event      string // its name: "pull_request"
	Actor      string // who caused the run
	Job        string // the job's id in its workflow
	Workspace  string // where the repository is checked out

	SHA string // what GitHub says was checked out; in a pull request a merge commit
	// Before is the commit that SHA was put upon: what the branch was before a push, what a merge group is merged into. "" if
	// the event names none.
	Before string
	// Landed says that SHA has come onto a branch, or is about to, in this event: by a push, in a merge group, or as a
	// pull request that was merged.
	Landed bool
	// HeadSHA is the commit that people mean: in a pull request the latest of its branch, otherwise SHA.
	HeadSHA string
	Ref     string // "refs/heads/main", "refs/pull/7/merge"
	// BaseRef is the branch that a pull request wants to be merged into; "" outside one.
	BaseRef       string
	DefaultBranch string // the repository's, or ""

	// BaseSHA is what the base branch of a pull request was when the event happened; "" outside one.
	BaseSHA string
	// Inputs says that whoever or whatever started the run gave it values: they may name any commit.
	Inputs bool

	// Number is the pull request's; 0: there is none, or (with NeedsPull) it has to be asked for.
	Number int
	// HeadRepository ("owner/name") and HeadBranch are where a pull request comes from; "" outside one, or if that
	// repository was deleted.
	HeadRepository string
	HeadBranch     string
	// Fork says that the head is in another repository.
	Fork bool
	// Dependabot says that Dependabot caused the run, which then has a fork's rights.
	Dependabot bool

	RunID      int64
	RunNumber  int
	RunAttempt int
	// WorkflowFile is the workflow's file name, "ci.yml"; "" if it is another repository's.
	WorkflowFile string

	// Origin is the run whose end caused this one (workflow_run); nil otherwise.
	Origin *Origin
}

// Origin is the run that a workflow_run event is about.
type Origin struct {
	RunID        int64
	RunAttempt   int
	Event        string // what caused it: "pull_request"
	WorkflowFile string
}

// FromEnv reads the facts from the environment and the event's file. The bool is whether this is a run of GitHub Actions at
// all. An error means that the event could not be read: the facts of the environment are there all the same.
// Source: docs.github.com, "Variables reference"; actions/runner, GitHubContext.cs.
func FromEnv(getenv Getenv) (Actions, bool, error) {
	get := func(name string) string {
		value, _ := getenv("GITHUB_" + name)
		return strings.TrimSpace(value)
	}
	if get("ACTIONS") != "true" {
		return Actions{}, false, nil
	}
	a := Actions{
		ServerURL:  strings.TrimRight(cmp.Or(get("SERVER_URL"), "https://github.com"), "/"),
		APIURL:     strings.TrimRight(cmp.Or(get("API_URL"), DefaultAPI), "/"),
		Repository: get("REPOSITORY"),
		Event:      get("EVENT_NAME"),
		Actor:      get("ACTOR"),
		Job:        get("JOB"),
		Workspace:  get("WORKSPACE"),
		SHA:        hash(get("SHA")),
		HeadSHA:    hash(get("SHA")),
		Ref:        get("REF"),
		BaseRef:    get("BASE_REF"),
		HeadBranch: get("HEAD_REF"),
		RunID:      number(get("RUN_ID")),
		RunNumber:  int(number(get("RUN_NUMBER"))),
		RunAttempt: max(1, int(number(get("RUN_ATTEMPT")))),
		Dependabot: get("ACTOR") == "dependabot[bot]",
	}
	a.WorkflowFile = workflowFile(get("WORKFLOW_REF"), a.Repository)
	a.Number = pullOf(a.Ref)
	e, err := readEvent(get("EVENT_PATH"))
	if err != nil {
		// Who knows whose code this is: without the event the careful answer is a fork's.
		a.Fork = isPull(a.Event)
		return a, true, fmt.Errorf("read the event of this run: %w", err)
	}
	e.teach(&a)
	return a, true, nil
}

// isPull reports events that are about a pull request's head.
func isPull(event string) bool { return strings.HasPrefix(event, "pull_request") }

// ReadOnly reports whether GitHub gave this run a token that cannot write, whatever the workflow's permissions say.
// Source: docs.github.com, "Events that trigger workflows", "Workflows in forked repositories"; "Troubleshooting Dependabot".
func (a Actions) ReadOnly() bool {
	switch a.Event {
	case "pull_request", "pull_request_review", "pull_request_review_comment":
		return a.Fork || a.Dependabot
	case "push", "create", "deployment", "deployment_status":
		return a.Dependabot
	}
	return false
}

// NeedsPull reports whether the pull request's number has to be asked for: see Client.FindPull.
func (a Actions) NeedsPull() bool {
	return a.Number == 0 && a.Origin != nil && isPull(a.Origin.Event)
}

// SourceRun is the run that the job belongs to: with an Origin that one, whose results this run only reports. It is never
// its own baseline.
func (a Actions) SourceRun() int64 {
	if a.Origin != nil {
		return a.Origin.RunID
	}
	return a.RunID
}

// BaselineBranch is the branch to compare with: a pull request's base, otherwise the default branch. With NeedsPull it is
// "", for only the pull request tells.
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

// Query asks for the baseline of a commit that was evaluated, on a branch, as far as the run tells. commit is "" if it is not
// known; parents are its parents as its checkout has them, or nil. What a run of a fork left behind is believed only as far
// as GitHub confirms it.
func (a Actions) Query(branch, commit string, parents []string) Query {
	q := Query{
		Repo: a.Repository, Branch: branch, Exclude: a.SourceRun(), Commit: commit, Parents: parents, Event: a.SHA, Before: a.Before,
	}
	onto := a.BaseRef // where what has landed has landed
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

// RunURL is the page of this run, or "".
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

// CommitURL is the page of the head commit, or "".
func (a Actions) CommitURL() string { return a.atHead("commit") }

// FilesURL is the repository's directory at the head commit, or "": a path below it shows that file or directory.
func (a Actions) FilesURL() string { return a.atHead("tree") }

func (a Actions) atHead(kind string) string {
	if a.HeadSHA == "" || !a.linkable() {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s/%s", a.ServerURL, a.Repository, kind, a.HeadSHA)
}

// linkable reports whether links can be made: they are put into Markdown.
func (a Actions) linkable() bool {
	_, _, err := split(a.Repository)
	return err == nil && plainURL.MatchString(a.ServerURL)
}

var (
	plainURL = regexp.MustCompile(`^https?://[A-Za-z0-9._~:/\[\]-]+$`)
	hexHash  = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	pullRef  = regexp.MustCompile(`^refs/pull/([0-9]{1,9})/(?:merge|head)$`)
)

// hash is a commit's hash, or "" if it is none.
func hash(s string) string {
	if !hexHash.MatchString(s) {
		return ""
	}
	return s
}

// number is a number that is not negative, or 0.
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

// workflowFile is the file's name in "owner/name/.github/workflows/ci.yml@refs/heads/main". Runs can be listed only for a
// workflow of the repository itself.
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

// event is what is read of an event's payload. Source: docs.github.com, "Webhook events and payloads".
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

// name is the repository's name, or "" if it was deleted.
func (r *fullName) name() string {
	if r == nil {
		return ""
	}
	return r.FullName
}

var errNoEvent = errors.New("GITHUB_EVENT_PATH is not set")

// readEvent reads the payload, of bounded size.
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

// teach adds to the facts what only the event says.
func (e event) teach(a *Actions) {
	if e.Repository != nil {
		a.DefaultBranch = e.Repository.DefaultBranch
	}
	if a.Event == "push" && e.Before != "" && strings.HasPrefix(a.Ref, "refs/heads/") {
		a.Landed = true
		if strings.Trim(e.Before, "0") != "" { // zeros: the branch is new
			a.Before = hash(e.Before)
		}
	}
	a.Inputs = len(e.Inputs)+len(e.ClientPayload) > 0
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

// headFrom notes where the head is. A repository that was deleted was a fork.
func headFrom(a *Actions, repo, branch string) {
	a.HeadRepository = repo
	a.HeadBranch = branch
	a.Fork = !strings.EqualFold(repo, a.Repository)
}
