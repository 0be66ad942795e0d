package github

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// aHistory is a real repository. GitHub knows all its commits except those that are only local.
//
//	A - B - C - D - E     main; the pull request branched off at B; others pushed C, D and E later
//	     \       \
//	      F - G   M       change (G is its head); M is refs/pull/7/merge: D and G, merged
type aHistory struct {
	t       *testing.T
	dir     string
	github  *githubtest.Server
	client  *Client
	commits map[string]string // by the name of a tag
	shared  []string
}

func newHistory(t *testing.T) *aHistory {
	t.Helper()
	s, c, _ := fixture(t)
	h := &aHistory{t: t, dir: t.TempDir(), github: s, client: c, commits: map[string]string{}}
	h.git("init", "--quiet", "--initial-branch=main")
	h.commit("A")
	h.commit("B")
	h.git("branch", "change")
	for _, name := range []string{"C", "D"} {
		h.commit(name)
	}
	h.git("checkout", "--quiet", "change")
	h.commit("F")
	h.commit("G")
	h.git("checkout", "--quiet", "--detach", "main")
	h.git("merge", "--quiet", "--no-ff", "-m", "M", "change")
	h.name("M")
	h.git("checkout", "--quiet", "main")
	h.commit("E")
	h.share()
	s.AddWorkflow(repo, workflowCI)
	return h
}

func (h *aHistory) git(args ...string) string { return h.gitIn(h.dir, args...) }

func (h *aHistory) gitIn(dir string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes a commit on the current branch.
func (h *aHistory) commit(name string) string {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(name), 0o644); err != nil {
		h.t.Fatal(err)
	}
	h.git("add", name)
	h.git("commit", "--quiet", "-m", name)
	return h.name(name)
}

// name tags HEAD.
func (h *aHistory) name(name string) string {
	h.t.Helper()
	h.git("tag", name)
	h.commits[name] = h.git("rev-parse", "HEAD")
	return h.commits[name]
}

// share copies all commits and branches to GitHub.
func (h *aHistory) share() {
	h.t.Helper()
	for line := range strings.Lines(h.git("log", "--all", "--topo-order", "--reverse", "--format=%H %P")) {
		if ids := strings.Fields(line); !slices.Contains(h.shared, ids[0]) {
			h.github.AddCommit(repo, ids[0], ids[1:]...)
			h.shared = append(h.shared, ids[0])
		}
	}
	for _, branch := range []string{"main", "change"} {
		h.github.SetBranch(repo, branch, h.git("rev-parse", branch))
	}
}

// ran adds a run on main for each of these commits, with its result.
func (h *aHistory) ran(names ...string) {
	h.t.Helper()
	for _, name := range names {
		id := h.github.AddRun(repo, githubtest.Run{WorkflowFile: workflowCI, Branch: "main", SHA: h.commits[name]})
		if _, err := h.github.AddArtifact(repo, id, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": name}}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// shallow makes a checkout of one commit without its history, like actions/checkout by default.
func (h *aHistory) shallow(name string) (commit string, parents []string) {
	h.t.Helper()
	dir := h.t.TempDir()
	h.gitIn(dir, "init", "--quiet")
	h.gitIn(dir, "fetch", "--quiet", "--depth=1", "file://"+h.dir, h.commits[name])
	h.gitIn(dir, "checkout", "--quiet", "--detach", "FETCH_HEAD")
	checkout := commits.Around(dir)
	if checkout.Commit == nil || *checkout.Commit != h.commits[name] {
		h.t.Fatalf("the checkout is %+v", checkout)
	}
	parents, err := git.New(git.Options{}).Parents(h.t.Context(), checkout.Objects, *checkout.Commit)
	if err != nil {
		h.t.Fatal(err)
	}
	return *checkout.Commit, parents
}

// pull returns the facts of a run on the pull request.
func (h *aHistory) pull() Actions {
	return Actions{
		Repository: repo, Event: "pull_request", Ref: "refs/pull/7/merge", SHA: h.commits["M"], HeadSHA: h.commits["G"], Number: 7,
		BaseRef: "main", DefaultBranch: "main", HeadRepository: repo, HeadBranch: "change", RunID: 1,
	}
}

func (h *aHistory) find(q Query) (Found, string, error) {
	h.t.Helper()
	q.WorkflowFile, q.Artifact = workflowCI, "rollout-result"
	f, err := h.client.FindBaseline(h.t.Context(), q, h.t.TempDir())
	for name, sha := range h.commits {
		if sha == f.Commit {
			return f, name, err
		}
	}
	return f, "", err
}

// want checks that the query finds the baseline of the named commit, with said as its description.
func (h *aHistory) want(q Query, name, said string) Found {
	h.t.Helper()
	f, got, err := h.find(q)
	if err != nil || got != name || !strings.Contains(f.String(), said) {
		h.t.Errorf("found %q, %v, said as %q, want %q with %q", got, err, f, name, said)
	}
	return f
}

// On a pull request, GitHub checks out the change merged with the current main. Later changes of
// others are in the merge, so they must be in the baseline.
func TestPullRequestIsComparedWithTheBaseOfItsMerge(t *testing.T) {
	h := newHistory(t)
	h.ran("A", "B", "C", "D", "E")
	commit, parents := h.shallow("M")
	if len(parents) != 2 || parents[0] != h.commits["D"] || parents[1] != h.commits["G"] {
		t.Fatalf("the parents are %q", parents)
	}
	h.github.Forget()
	h.want(h.pull().Query("main", commit, parents), "D", "(the base of the merge that was evaluated; run ")
	for _, asked := range h.github.Seen() {
		if strings.Contains(asked, "/compare/") || strings.Contains(asked, "/commits") {
			t.Errorf("%s: the checkout tells", asked)
		}
	}
	// Without a checkout, GitHub's answer is used, and the event's commit.
	h.want(h.pull().Query("main", commit, nil), "D", "(the base of the merge that was evaluated; run ")
	h.want(h.pull().Query("main", "", nil), "D", "the checked-out commit is unknown, assuming "+commit[:7])
}

func TestNearestAncestorOfTheMergedBase(t *testing.T) {
	h := newHistory(t)
	h.ran("A", "B", "E")
	commit, parents := h.shallow("M")
	f := h.want(h.pull().Query("main", commit, parents), "B", "(2 commits before the base of the merge that was evaluated, "+h.commits["D"][:7]+"; run ")
	if f.Behind != 2 || f.Base != h.commits["D"] {
		t.Errorf("found %+v", f)
	}
	h = newHistory(t)
	h.ran("E")
	if _, _, err := h.find(h.pull().Query("main", commit, parents)); err == nil || !strings.Contains(err.Error(), "merge main into this branch") {
		t.Errorf("the reason is %v", err)
	}
}

func TestCheckedOutCommitDecides(t *testing.T) {
	h := newHistory(t)
	h.ran("A", "B", "C", "D", "E")
	pull := h.pull()
	query := func(name string) Query {
		commit, parents := h.shallow(name)
		return pull.Query("main", commit, parents)
	}
	t.Run("the head of the branch", func(t *testing.T) { h.want(query("G"), "B", "(the merge base; run ") })
	t.Run("main itself", func(t *testing.T) { h.want(query("C"), "C", "(an earlier run of this commit; run ") })

	// GitHub remade the merge before it was checked out by name.
	h.git("checkout", "--quiet", "--detach", "main")
	h.git("merge", "--quiet", "--no-ff", "-m", "M2", "change")
	h.name("M2")
	// GitHub does not know the result of "git checkout change; git merge main".
	h.share()
	h.git("checkout", "--quiet", "--detach", "change")
	h.git("merge", "--quiet", "--no-ff", "-m", "local", "C")
	h.name("local")
	h.git("checkout", "--quiet", "--detach", "M")
	h.commit("ontop")
	h.git("checkout", "--quiet", "--detach", "G")
	h.git("merge", "--quiet", "--no-ff", "-m", "octopus", "C", "D")
	h.name("octopus")

	t.Run("a later merge", func(t *testing.T) { h.want(query("M2"), "E", "(the base of the merge that was evaluated; run ") })
	t.Run("a local merge", func(t *testing.T) { h.want(query("local"), "C", "(the base of the merge that was evaluated; run ") })
	t.Run("a local commit", func(t *testing.T) { h.want(query("ontop"), "D", "(the merge base; run ") })
	t.Run("a local merge of several branches", func(t *testing.T) { h.want(query("octopus"), "D", "(the base of the merge that was evaluated; run ") })
	t.Run("a commit of another repository", func(t *testing.T) {
		h.want(pull.Query("main", sha(77), nil), "D", "assuming "+h.commits["M"][:7])
		h.want(pull.Query("main", sha(77), []string{sha(78)}), "D", "assuming "+h.commits["M"][:7])
	})
	t.Run("a merge that GitHub no longer has", func(t *testing.T) {
		old := pull
		old.SHA = sha(79)
		h.want(old.Query("main", "", nil), "B", "assuming "+h.commits["G"][:7])
	})
	t.Run("a branch in a manual run", func(t *testing.T) {
		dispatch := Actions{Repository: repo, Event: "workflow_dispatch", Ref: "refs/heads/change", SHA: h.commits["G"], HeadSHA: h.commits["G"]}
		commit, parents := h.shallow("G")
		h.want(dispatch.Query("main", commit, parents), "B", "(the merge base; run ")
		commit, parents = h.shallow("M") // with the input ref: refs/pull/7/merge
		h.want(dispatch.Query("main", commit, parents), "D", "(the merge base; run ")
	})
	t.Run("main in a scheduled run", func(t *testing.T) {
		schedule := Actions{Repository: repo, Event: "schedule", Ref: "refs/heads/main", SHA: h.commits["E"], HeadSHA: h.commits["E"]}
		commit, parents := h.shallow("E")
		h.want(schedule.Query("main", commit, parents), "E", "(an earlier run of this commit; run ")
	})
}

func TestPushIsComparedWithTheBranchBefore(t *testing.T) {
	h := newHistory(t)
	h.ran("A", "B", "C", "D", "E")
	push := func(before, name string) Query {
		commit, parents := h.shallow(name)
		a := Actions{Repository: repo, Event: "push", Ref: "refs/heads/main", SHA: commit, HeadSHA: commit, Before: h.commits[before], Landed: true}
		return a.Query("main", commit, parents)
	}
	h.want(push("D", "E"), "D", "(what the branch was before; run ")
	h.want(push("B", "E"), "B", "(what the branch was before; run ") // of three commits
	h.want(push("", "E"), "D", "(what the branch was before; run ")  // the branch is new, or before is unknown

	// A force push: G replaces E; B is their merge base.
	h.want(push("E", "G"), "B", "(what the branch was before; run ")
	// A force push back to an older commit.
	h.want(push("E", "C"), "C", "(an earlier run of this commit; run ")
	if _, _, err := h.find(push("", "A")); err == nil || !strings.Contains(err.Error(), "is the first commit") {
		t.Errorf("the reason is %v", err)
	}
	h.commits["lost"] = sha(99) // a commit that GitHub no longer has
	h.want(push("lost", "E"), "D", "(what the branch was before; run ")

	// Another branch is compared with main, not with its state before the push.
	commit, parents := h.shallow("G")
	a := Actions{Repository: repo, Event: "push", Ref: "refs/heads/change", SHA: commit, HeadSHA: commit, Before: h.commits["F"], Landed: true}
	h.want(a.Query("main", commit, parents), "B", "(the merge base; run ")
	// So is a commit that is not the event's.
	commit, parents = h.shallow("G")
	a = Actions{Repository: repo, Event: "push", Ref: "refs/heads/main", SHA: h.commits["E"], Before: h.commits["D"], Landed: true}
	h.want(a.Query("main", commit, parents), "B", "(the merge base; run ")
}

// A merge queue stacks changes; main may get them before their runs end.
func TestMergeGroupIsComparedWithItsBase(t *testing.T) {
	h := newHistory(t)
	h.ran("A", "B", "C", "D", "E")
	h.github.SetBranch(repo, "main", h.commits["M"]) // meanwhile
	commit, parents := h.shallow("M")
	a := Actions{Repository: repo, Event: "merge_group", SHA: commit, HeadSHA: commit, BaseRef: "main", Before: h.commits["D"], Landed: true}
	h.want(a.Query("main", commit, parents), "D", "(what the branch was before; run ")
}

// After a merge, main is checked out: after a squash, that is one commit.
func TestMergedPullRequestIsComparedWithMainBefore(t *testing.T) {
	h := newHistory(t)
	h.ran("A", "B", "C", "D", "E")
	h.git("merge", "--quiet", "--squash", "change")
	h.git("commit", "--quiet", "-m", "squashed")
	commit := h.name("S")
	h.share()
	a := h.pull()
	a.SHA, a.Landed = commit, true
	_, parents := h.shallow("S")
	h.want(a.Query("main", commit, parents), "E", "(what the branch was before; run ")
}

// The artifact of a fork's run claims which commit it evaluated. The claim is checked.
func TestClaimedCommitOfAForkIsChecked(t *testing.T) {
	h := newHistory(t)
	h.ran("A", "B", "C", "D", "E")
	a := Actions{
		Repository: repo, Event: "workflow_run", SHA: h.commits["E"], HeadSHA: h.commits["G"], HeadRepository: "mallory/widgets", Fork: true,
		Origin: &Origin{RunID: 5, Event: "pull_request", WorkflowFile: workflowCI},
	}
	h.want(a.Query("main", h.commits["M"], []string{h.commits["A"], h.commits["G"]}), "D", "(the base of the merge that was evaluated; run ")
	h.want(a.Query("main", h.commits["G"], []string{h.commits["A"]}), "B", "(the merge base; run ")
	for _, claim := range []string{"A", "E", "F"} {
		h.want(a.Query("main", h.commits[claim], []string{h.commits["A"], h.commits["G"]}), "B", "assuming "+h.commits["G"][:7])
	}
	h.want(a.Query("main", sha(77), nil), "B", "assuming "+h.commits["G"][:7])

	// After our own push, the base is main before it.
	a = Actions{
		Repository: repo, Event: "workflow_run", SHA: h.commits["E"], HeadSHA: h.commits["E"], HeadBranch: "main", HeadRepository: repo,
		Origin: &Origin{RunID: 5, Event: "push", WorkflowFile: workflowCI},
	}
	h.want(a.Query("main", h.commits["E"], []string{h.commits["D"]}), "D", "(what the branch was before; run ")
}
