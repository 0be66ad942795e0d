//go:build linux

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// lockName is the lock file of a job.
const lockName = ".rollout.lock"

// steadyJob creates a directory with a job whose trials always end in the same way: some pass, some
// fail, some end with half a reward. mark is the sleep time of its agents' processes; it is a
// parameter because it is part of the job's identity.
func steadyJob(t *testing.T, provider string, attempts int, mark string) job {
	t.Helper()
	j := job{dir: t.TempDir(), name: "steady", provider: provider, mark: mark}
	files := map[string]string{"job.yaml": fmt.Sprintf(`
name: %s
n_attempts: %d
n_concurrent_trials: 3
environment:
  type: %s
  %s
agents:
  - name: oracle
  - name: fails
    execute: |
      echo "I cannot do this" >&2
      exit 7
  - name: works
    install: echo ready
    execute: |
      echo working
      sleep %s
      echo 0.5 > /tmp/answer
datasets:
  - path: evals
`, j.name, attempts, provider, environmentOn(provider), j.mark)}
	for _, task := range []string{"one", "two"} {
		files["evals/"+task+"/task.toml"] = "version = \"1.0\"\n[environment]\ndocker_image = \"" + imageFor(provider) + "\"\n"
		files["evals/"+task+"/instruction.md"] = "Do " + task + ".\n"
		files["evals/"+task+"/solution/solve.sh"] = "#!/bin/bash\necho 1 > /tmp/answer\n"
		files["evals/"+task+"/tests/test.sh"] = "#!/bin/bash\ncat /tmp/answer > /logs/verifier/reward.txt\n"
	}
	for name, text := range files {
		path := filepath.Join(j.dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return j
}

func (j job) directory() string { return filepath.Join(j.dir, "jobs", j.name) }

// results returns the trials' result.json files by their path below the job's directory, except
// those of trials that were cut short.
func (j job) results(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(j.directory(), "*/evals/*", result.ResultFile))
	must(t, err)
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a resume has just moved it away
		}
		must(t, err)
		below, err := filepath.Rel(j.directory(), file)
		must(t, err)
		if !cutShort(text) {
			found[below] = string(text)
		}
	}
	return found
}

// cutShort reports whether a result is that of a cancelled trial.
func cutShort(text []byte) bool {
	return strings.Contains(string(text), fmt.Sprintf("%q: %q", "type", result.Cancelled))
}

// steady returns a result file without times and costs.
func steady(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	var v any
	must(t, json.Unmarshal(text, &v))
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if strings.HasSuffix(key, "_at") || strings.HasSuffix(key, "_sec") {
					delete(v, key)
				}
				strip(value)
			}
		case []any:
			for _, item := range v {
				strip(item)
			}
		}
	}
	strip(v)
	text, err = json.MarshalIndent(v, "", " ")
	must(t, err)
	return string(text)
}

// seed returns a source of random numbers, seeded with ROLLOUT_TEST_SEED or the time.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("ROLLOUT_TEST_SEED"), 10, 64)
	if err != nil {
		n = uint64(time.Now().UnixNano())
	}
	t.Logf("ROLLOUT_TEST_SEED=%d repeats the choices of this test", n)
	return rand.New(rand.NewPCG(n, 0))
}

func TestKilledJobsLoseNothing(t *testing.T) {
	testenv.Long(t, "jobs are killed many times")
	t.Run("fake", func(t *testing.T) { killAgainAndAgain(t, fake.Name, testenv.Times(16, 100), 6) })
	t.Run("sandbox", func(t *testing.T) {
		needSandbox(t)
		killAgainAndAgain(t, sandbox.Name, testenv.Times(9, 50), 4)
	})
}

// killAgainAndAgain kills and resumes runs of jobs until enough kills have hit, and compares the
// result of each job with that of an undisturbed one.
func killAgainAndAgain(t *testing.T, provider string, kills, attempts int) {
	random := seed(t)
	mark := fmt.Sprintf("0.02%d", time.Now().UnixNano())
	calm := steadyJob(t, provider, attempts, mark)
	r := calm.start(t, "job.yaml")
	want := r.exit(t)
	if n := len(calm.results(t)); n != 6*attempts {
		t.Fatalf("the undisturbed run has %d results, want %d", n, 6*attempts)
	}
	hit, rounds, moved := 0, 0, 0
	for ; hit < kills || moved == 0 && hit < 10*kills; rounds++ {
		j := steadyJob(t, provider, attempts, mark)
		before := map[string]string{}
		for {
			var code int
			r, code = j.killOnce(t, random, len(before))
			before = j.wantKept(t, before)
			if code == signalled {
				hit++
				continue
			}
			if code == 130 {
				continue
			}
			if code != want {
				t.Fatalf("it ends with %d, want %d:\n%s", code, want, r.output)
			}
			break
		}
		moved += j.wantLike(t, calm)
		j.wantLeft(t, 0, "after a job that was killed and resumed")
		wantNoSleepers(t, j)
	}
	if provider == sandbox.Name {
		wantNoMounts(t)
		wantNoScratch(t)
	}
	if moved == 0 {
		t.Error("this test has lost its point: no kill has hit a running trial")
	}
	t.Logf("%d kills of %d jobs, which moved %d directories away", hit, rounds, moved)
}

// signalled is the exit code of a process that a signal ended.
const signalled = -1

// killOnce starts or resumes the job and kills it when it has some more results.
func (j job) killOnce(t *testing.T, random *rand.Rand, results int) (r *run, code int) {
	t.Helper()
	args := []string{"run", "job.yaml", "--resume"}
	if _, err := os.Stat(filepath.Join(j.directory(), result.PlanFile)); err == nil && random.IntN(2) == 0 {
		args = []string{"resume", filepath.Join("jobs", j.name)}
	}
	r = j.start(t, args...)
	return r, j.killWhen(t, random, r, results+1+random.IntN(3))
}

// killWhen kills (sometimes interrupts) a run when the job has enough results, or some time after
// its start: the former is independent of the machine's speed, the latter hits the phase before any
// progress. It returns the exit code.
func (j job) killWhen(t *testing.T, random *rand.Rand, r *run, enough int) int {
	t.Helper()
	early := random.IntN(3) == 0
	delay := time.Duration(random.IntN(5000)) * time.Microsecond
	if early {
		delay = time.Duration(random.IntN(60_000)) * time.Microsecond
	}
	ended := make(chan struct{})
	go func() {
		_ = r.cmd.Wait()
		close(ended)
	}()
	for !early && len(j.results(t)) < enough {
		select {
		case <-ended:
			return r.cmd.ProcessState.ExitCode()
		case <-time.After(time.Millisecond): // polls
		}
	}
	select {
	case <-ended:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(delay): // any moment is as good as another
	}
	signal := syscall.SIGKILL
	if !early && random.IntN(8) == 0 {
		signal = syscall.SIGINT
	}
	_ = r.cmd.Process.Signal(signal)
	<-ended
	return r.cmd.ProcessState.ExitCode()
}

// wantKept checks that earlier results still exist unchanged, and returns all results.
func (j job) wantKept(t *testing.T, before map[string]string) map[string]string {
	t.Helper()
	now := j.results(t)
	for path, text := range before {
		if now[path] != text {
			t.Errorf("the result %s was\n%s\nand is\n%s", path, text, now[path])
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return now
}

// wantLike checks that a job has the same results as another one: no trial is missing or
// duplicated, and no ended trial was run again. It returns the number of superseded directories.
func (j job) wantLike(t *testing.T, calm job) int {
	t.Helper()
	for _, file := range []string{result.ResultFile, result.MetadataFile} {
		if got, want := steady(t, filepath.Join(j.directory(), file)), steady(t, filepath.Join(calm.directory(), file)); got != want {
			t.Errorf("%s is\n%s\nand of the undisturbed run\n%s", file, got, want)
		}
	}
	if got, want := len(j.results(t)), len(calm.results(t)); got != want {
		t.Errorf("there are %d results, want %d", got, want)
	}
	if got, want := j.outputs(t), calm.outputs(t); !reflect.DeepEqual(got, want) {
		t.Errorf("outputs.jsonl has the lines %v, want %v", got, want)
	}
	if got, want := j.files(t), calm.files(t); !reflect.DeepEqual(got, want) {
		t.Errorf("the files are\n%q\nand of the undisturbed run\n%q", got, want)
	}
	moved, err := filepath.Glob(filepath.Join(j.directory(), result.SupersededDir, "*/*/*"))
	must(t, err)
	for _, dir := range moved {
		if text, err := os.ReadFile(filepath.Join(dir, result.ResultFile)); err == nil && !cutShort(text) {
			t.Errorf("a trial that had ended was run again: %s", dir)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return len(moved)
}

// outputs returns the number of lines in outputs.jsonl, by trial, stop condition and prompt.
func (j job) outputs(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open(filepath.Join(j.directory(), result.OutputsFile))
	must(t, err)
	defer f.Close()
	lines := map[string]int{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var o result.Output
		must(t, json.Unmarshal(in.Bytes(), &o))
		lines[fmt.Sprint(o.Dir, " ", o.StopCondition, " ", o.Prompt)]++
	}
	must(t, in.Err())
	return lines
}

// files returns the names of all files, except for the superseded ones.
func (j job) files(t *testing.T) []string {
	t.Helper()
	var names []string
	must(t, filepath.WalkDir(j.directory(), func(path string, e fs.DirEntry, err error) error {
		if e.IsDir() && e.Name() == result.SupersededDir {
			return filepath.SkipDir
		}
		below, relErr := filepath.Rel(j.directory(), path)
		names = append(names, below)
		return cmp.Or(err, relErr)
	}))
	return names
}

// wantNoSleepers waits until no process that agents of the job started is left. The kernel ends
// them almost immediately after the killed process.
func wantNoSleepers(t *testing.T, j job) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		left := j.sleepers(allProcesses(t))
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes are left: %v", left)
		}
		time.Sleep(10 * time.Millisecond) // polls
	}
}

func TestOnlyOneProcessOwnsTheJob(t *testing.T) {
	j := hangingJob(t, fake.Name, 2)
	dir := filepath.Join("jobs", j.name)
	first := j.start(t, "job.yaml")
	j.waitRunning(t, 2)
	for _, args := range [][]string{{"resume", dir}, {"run", "job.yaml", "--resume"}} {
		second := j.start(t, args...)
		if code := second.exit(t); code != 2 {
			t.Errorf("%v ends with %d, want 2", args, code)
		}
		want := fmt.Sprintf("is being run by another rollout (process %d on ", first.cmd.Process.Pid)
		if !strings.Contains(second.output.String(), want) {
			t.Errorf("%v does not say %q:\n%s", args, want, second.output)
		}
	}
	must(t, first.cmd.Process.Kill())
	first.exit(t)
	if _, err := os.Stat(filepath.Join(j.directory(), lockName)); err != nil {
		t.Errorf("this test has lost its point: a killed process leaves its lock's file: %v", err)
	}

	// Of two concurrent resumes, one continues the job.
	a, b := j.start(t, "resume", dir), j.start(t, "resume", dir)
	ended := make(chan *run, 2)
	for _, r := range []*run{a, b} {
		go func() {
			_ = r.cmd.Wait()
			ended <- r
		}()
	}
	loser := <-ended
	winner := a
	if loser == a {
		winner = b
	}
	if code := loser.cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("the first to end ends with %d, want 2:\n%s", code, loser.output)
	}
	j.waitMoved(t, 2)
	j.waitRunning(t, 2)
	must(t, winner.cmd.Process.Signal(os.Interrupt))
	<-ended
	if code := winner.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("the other one ends with %d, want 130:\n%s", code, winner.output)
	}
	if _, err := os.Stat(filepath.Join(j.directory(), lockName)); err == nil {
		t.Error("the lock's file is there after the job")
	}
}

// waitMoved waits until n trials of an earlier run have been moved away.
func (j job) waitMoved(t *testing.T, n int) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		moved, err := filepath.Glob(filepath.Join(j.directory(), result.SupersededDir, "*/*/*"))
		must(t, err)
		if len(moved) == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("superseded are %q, want %d", moved, n)
		}
		time.Sleep(20 * time.Millisecond) // polls
	}
}

func TestResumeAfterFullDisk(t *testing.T) {
	testenv.NeedRoot(t, "to mount a small file system")
	j := steadyJob(t, fake.Name, 30, "0.001")
	small := filepath.Join(j.dir, "jobs")
	must(t, os.Mkdir(small, 0o755))
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=400k"); err != nil {
		testenv.Lacks(t, "docker", "the right to mount a small file system: "+err.Error())
	}
	defer func() { must(t, syscall.Unmount(small, syscall.MNT_DETACH)) }()
	r := j.start(t, "job.yaml", "--set", "environment.min_free_disk=0")
	if code := r.exit(t); code != 3 {
		t.Fatalf("exit code %d, want 3", code)
	}
	before := j.results(t)
	if len(before) == 0 || len(before) == 180 {
		t.Fatalf("%d trials on disk: the disk was too small or too large for this test", len(before))
	}
	dir := filepath.Join("jobs", j.name)
	r = j.start(t, "resume", dir)
	if code := r.exit(t); code != 3 || !strings.Contains(r.output.String(), "no space left on device") {
		t.Errorf("on the full disk it ends with %d and says\n%s", code, r.output)
	}
	before = j.wantKept(t, before)
	must(t, syscall.Mount("none", small, "tmpfs", syscall.MS_REMOUNT, "size=100m"))
	r = j.start(t, "resume", dir)
	if code := r.exit(t); code != 1 { // one of the agents fails
		t.Errorf("when there is room it ends with %d, want 1", code)
	}
	if after := j.wantKept(t, before); len(after) != 180 {
		t.Errorf("there are %d results, want 180", len(after))
	}
	for line, n := range j.outputs(t) {
		if n != 1 {
			t.Errorf("%d lines of %s are of %s", n, result.OutputsFile, line)
		}
	}
}
