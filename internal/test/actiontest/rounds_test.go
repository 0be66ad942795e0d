package actiontest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// Shards of a job that stops early make one round after the other, as long as a look at all of them
// asks for another one: all rounds at once without a baseline, one if nothing changed, and all
// three for a drop that only all attempts prove.
func TestShardsStopEarly(t *testing.T) {
	testenv.Long(t, "rounds over shards in act")
	fruit := []string{"apple", "banana", "cherry", "damson", "elder"}
	r := newRepository(t, fruit...)
	thrice := func() {
		const file = "evals/job.yaml"
		write(t, r.dir, map[string]string{file: strings.Replace(read(t, r.dir, file), "n_attempts: 1", "n_attempts: 3", 1)})
	}
	thrice()
	write(t, r.dir, map[string]string{".github/workflows/rounds.yml": `name: rounds
on: { pull_request: {}, push: { branches: [main] } }
jobs:
  evaluate:
    uses: org/rollout-action/.github/workflows/rollout.yml@v1
    with: { job: evals/job.yaml, shards: '2', max-pass-rate-drop: '0', stop-early: early, reuse: '', comment: 'off' }
    secrets:
      env: |
        MODEL_API_KEY=${{ secrets.MODEL_API_KEY }}
`})
	base := r.commit("an agent")
	r.api.SetBranch(slug, "main", base)
	// The results of a push become a baseline: all attempts are made at once.
	push := r.act("rounds.yml", "push", map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}})
	push.wantRounds(0, map[string]string{"look": "", "look2": "", "merge": "pass"}, 15, "")
	run := r.api.AddRun(slug, githubtest.Run{WorkflowFile: "rounds.yml", Branch: "main", SHA: base})
	_, err := r.api.AddArtifact(slug, run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": read(t, push.artifact("rollout-result"), "result.json")}})
	must(t, err)

	write(t, r.dir, map[string]string{"README.md": "Nothing else.\n"})
	head := r.commit("words", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "main"})
	same := r.act("rounds.yml", "pull_request", pull(head, base, slug))
	same.wantRounds(0, map[string]string{"look": "", "look2": "", "merge": "pass"}, 5, "Ended after 1 of 3 rounds: no further attempts could reasonably show a drop. 10 trials were not needed.")
	if same.results["round2 1/2"] == "success" {
		t.Error("there is a second round")
	}

	suite(t, r.dir)
	thrice()
	head = r.commit("a worse agent", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "main"})
	worse := r.act("rounds.yml", "pull_request", pull(head, base, slug))
	worse.wantRounds(1, map[string]string{"look": "2", "look2": "3", "merge": "fail"}, 15, "")
	worse.wantResults(map[string]string{"shard 1/2": "success", "round2 1/2": "success", "round2 2/2": "success", "round3 1/2": "success", "round3 2/2": "success"})
}

// wantRounds checks how act ended, which round each look asked for and the verdict of the merge,
// how many trials ran, and a sentence of the summary.
func (a *acted) wantRounds(code int, want map[string]string, trials int, sentence string) {
	a.t.Helper()
	if a.code != code {
		a.t.Errorf("act ends with %d, want %d", a.code, code)
	}
	got := map[string]string{"look": a.output("look", "look", "round"), "look2": a.output("look2", "look", "round"), "merge": a.output("report", "merge", "verdict")}
	for name := range want {
		if got[name] != want[name] {
			a.t.Errorf("%s says %q, want %q", name, got[name], want[name])
		}
	}
	job, _, err := result.ReadJob(filepath.Join(a.artifact("rollout-job"), "rollout/result.json"))
	must(a.t, err)
	if job.CompletedTrials != trials || job.SkippedTrials != 0 {
		a.t.Errorf("%d trials ran and %d were skipped, want %d", job.CompletedTrials, job.SkippedTrials, trials)
	}
	if text := a.summary("report"); !strings.Contains(text, sentence) {
		a.t.Errorf("the summary does not say %q:\n%s", sentence, text)
	}
}
