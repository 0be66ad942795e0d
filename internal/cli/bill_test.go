package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// billScene is a repository with a suite of 60 tasks, of which 12 need one skill, and the results
// of the base branch: three attempts at each task, of which two thirds pass.
type billScene struct {
	*suspects
	stored string // the result.json of the base branch, outside of the repository
}

const (
	billTasks    = 60
	billAttempts = 3
)

func newBillScene(t *testing.T) billScene {
	t.Helper()
	testenv.NeedGit(t)
	s := billScene{&suspects{T: t, dir: t.TempDir()}, filepath.Join(t.TempDir(), "result.json")}
	s.write("evals/job.yaml", `
name: pr
n_attempts: 3
n_concurrent_trials: 8
environment: {type: fake}
agents: [{name: mine, execute: "x=0123456789; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do x=$x$x; done; echo $x"}]
datasets: [{path: tasks}]
gate: {max_pass_rate_drop: 0}
affects:
  - {paths: [skills/pdf/**], tasks: [pdf-*]}
  - {paths: [docs/**], tasks: []}
`)
	for i := range billTasks {
		name := fmt.Sprintf("evals/tasks/text-%02d", i)
		if i%5 == 0 {
			name = fmt.Sprintf("evals/tasks/pdf-%02d", i)
		}
		s.write(name+"/task.toml", "version = \"1.0\"\n[environment]\ndocker_image = \"x@sha256:"+strings.Repeat("a", 64)+"\"\n")
		s.write(name+"/instruction.md", "Do it.\n")
		s.write(name+"/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n")
	}
	s.git("init", "-q", "-b", "main")
	s.git("add", ".")
	s.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "one")
	return s
}

func (s billScene) git(args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "git", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// runBase runs the suite as the base branch does, and stores its results with costs of 2 to 8.6
// cents, and rewards of tasks of which two thirds pass on average.
func (s billScene) runBase() {
	s.Helper()
	s.rollout(0, "run", "evals/job.yaml", "--name", "main", "--jobs-dir", filepath.Join(s.dir, "jobs"), "--log-format", "plain", "--set", "gate.on_no_baseline=pass")
	var base result.Job
	if err := json.Unmarshal([]byte(s.read("jobs/main/result.json")), &base); err != nil {
		s.Fatal(err)
	}
	base.Commit = new("5d6e7f8000000000000000000000000000000000")
	rng := rand.New(rand.NewPCG(60, 3))
	levels := map[string]float64{}
	for i := range base.Results.Len() {
		base.Results.Change(i, func(o *result.Outcome) {
			if _, ok := levels[o.Task]; !ok {
				u := rng.Float64()
				levels[o.Task] = 1 - u*u
			}
			o.Cost = result.Dollars(0.02 + 0.006*float64(len(levels)%12))
			o.Reward = new(0.0)
			if rng.Float64() < levels[o.Task] {
				o.Reward = new(1.0)
			}
		})
	}
	text, err := json.Marshal(base)
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.stored, text, 0o644); err != nil {
		s.Fatal(err)
	}
}

var estimated = regexp.MustCompile(`(?s)(\d+) trials? of \d+ tasks?.*Cost: (?:at most )?about (\$[0-9.]+)`)

// estimate returns the trials and dollars that rollout plan --estimate prints.
func (s billScene) estimate(args ...string) (trials, dollars string) {
	s.Helper()
	text := s.rollout(0, append([]string{"plan", "evals/job.yaml", "--estimate", "--baseline", s.stored}, args...)...)
	if strings.Contains(strings.ToLower(text), "no trial") {
		return "0", "0"
	}
	m := estimated.FindStringSubmatch(text)
	if m == nil {
		s.Fatalf("no estimate:\n%s", text)
	}
	return m[1], strings.TrimPrefix(m[2], "$")
}

// early returns the trials and dollars of a job that ends early, as rollout plan --power prints
// them.
func (s billScene) early(attempts int, args ...string) (trials int, dollars float64) {
	s.Helper()
	text := s.rollout(0, append([]string{"plan", "evals/job.yaml", "--power", "--timings", s.stored, "--json"}, args...)...)
	var power struct {
		Rows []struct {
			Attempts int     `json:"attempts"`
			Trials   int     `json:"early_trials"`
			Dollars  float64 `json:"early_cost_usd"`
		} `json:"attempts"`
	}
	if err := json.Unmarshal([]byte(text), &power); err != nil {
		s.Fatalf("%v:\n%s", err, text)
	}
	row := power.Rows[attempts-1]
	if row.Attempts != attempts || row.Trials == 0 {
		s.Fatalf("%+v:\n%s", row, text)
	}
	return row.Trials, row.Dollars
}

// TestBill computes the first tables of the pages about costs and power from one suite.
func TestBill(t *testing.T) {
	t.Parallel()
	s := newBillScene(t)
	s.runBase()
	var table strings.Builder
	row := func(label, trials, dollars string) { fmt.Fprintf(&table, "| %s | %s | %s |\n", label, trials, dollars) }
	exact := func(label string, args ...string) {
		t.Helper()
		trials, dollars := s.estimate(args...)
		row(label, trials, dollars)
	}
	about := func(label string, trials int, dollars float64) {
		row(label, fmt.Sprintf("about %d", trials), fmt.Sprintf("%.2f", dollars))
	}
	drops, cost := s.early(billAttempts)
	exact("all of it, and the baseline again: `--against`", "--against", "main")
	about("the same with [`stop: early`](stop-early.md), if nothing changed", 2*drops, 2*cost)
	exact("all of it, compared with a stored baseline")
	about("the same with `stop: early`, if nothing changed", drops, cost)
	broken, brokenCost := s.early(5, "--set", "gate={max_broken_tasks: 0}")
	about("5 attempts with `stop: early`, under `max_broken_tasks` alone, if nothing changed", broken, brokenCost)
	one, oneCost := s.estimate("--n-attempts", "1", "--confirm", "4")
	all, err := strconv.ParseFloat(oneCost, 64)
	if err != nil {
		t.Fatal(err)
	}
	row("one attempt with [`confirm: {attempts: 4}`](gate.md#confirm-broken-tasks)", one+", and up to 4 for each task that looks broken", fmt.Sprintf("%s, and %.2f for each", oneCost, 4*all/billTasks))
	exact("[`--reuse baseline`](resume.md#reuse-the-baseline), if nothing changed that the agents or tasks depend on", "--reuse", "baseline")
	s.write("skills/pdf/read.md", "Read it.\n")
	exact("only what changed can affect ([`affects`](job-file.md#what-a-change-can-affect), `changed: main`): a skill that 12 tasks need", "--changed", "main")
	if err := os.RemoveAll(filepath.Join(s.dir, "skills")); err != nil {
		t.Fatal(err)
	}
	s.write("docs/index.md", "Read it.\n")
	exact("the same for a change of the documentation", "--changed", "main")
	has(t, "bill.md", "| what runs | trials | dollars |\n|---|---|---|\n"+table.String())

	power := strings.Split(s.rollout(0, "plan", "evals/job.yaml", "--power", "--timings", s.stored), "\n")
	has(t, "power.md", "```\n"+strings.Join(power[2:8], "\n")+"\n…\n```\n")
}

// has reports an error if a page of the documentation lacks a text.
func has(t *testing.T, page, text string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), text) {
		t.Errorf("docs/%s lacks this:\n%s", page, text)
	}
}

// TestStoredResultsAreSmall: what the base branch stores for later runs has no logs. Its size
// depends on the number of trials alone, and a baseline of 300 trials is small.
func TestStoredResultsAreSmall(t *testing.T) {
	t.Parallel()
	s := newBillScene(t)
	s.rollout(0, "run", "evals/job.yaml", "--name", "main", "--n-attempts", "5", "--jobs-dir", filepath.Join(s.dir, "jobs"), "--log-format", "plain", "--set", "gate.on_no_baseline=pass")
	stored := len(s.read("jobs/main/result.json")) + len(s.read("jobs/main/verdict.json"))
	written := 0
	err := filepath.WalkDir(filepath.Join(s.dir, "jobs/main"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			written += int(info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes are stored, of %d that the job wrote", stored, written)
	const trials, most, log = 5 * billTasks, 400, 80_000 // bytes of a trial that are stored, and that its agent printed
	if stored > trials*most {
		t.Errorf("%d bytes are stored for %d trials, want at most %d for each", stored, trials, most)
	}
	if written < trials*log {
		t.Errorf("the job wrote %d bytes: its agents' output is lost, so this tests nothing", written)
	}
	if err := os.WriteFile(s.stored, []byte(s.read("jobs/main/result.json")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "jobs/main")); err != nil {
		t.Fatal(err)
	}
	if trials, _ := s.estimate("--n-attempts", "5", "--reuse", "baseline"); trials != "0" {
		t.Errorf("%s trials would run: the stored file is not enough to take all of them over", trials)
	}
}
