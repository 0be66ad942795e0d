package mine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/run/prove"
)

const (
	runs     = 3       // of each task with its change and without it, in the proof
	maxNames = 4 << 20 // bytes of the names of the tests that passed in a run
	// passedFile is where the tests of a task note the names of those that passed, and nearFile
	// where those near the change do. Source: files/test.sh of package mine.
	passedFile = "passed.txt"
	nearFile   = "near.txt"
	// unnamedFile shows that the tests passed and named none. Source: files/run-make.sh of package
	// mine.
	unnamedFile = "unnamed.txt"
)

// prove runs the tasks twice: once to learn the names of the tests, and then as validate --run does
// it. It moves the proven tasks into the dataset: if it is interrupted, those that were proven
// until then.
func (m *mining) prove(ctx context.Context) error {
	if !m.promising() {
		return nil
	}
	host.Linef(m.host.Output, "Learning the names of the tests: each task runs once with its change and once without it")
	err := m.run(ctx, "names", 1, 1, false, m.learn)
	if err == nil {
		err = m.again(ctx)
	}
	if err != nil || !m.promising() {
		return err
	}
	host.Linef(m.host.Output, "Proving the tasks whose tests tell the change")
	return m.run(ctx, "proof", runs, runs, true, m.keep)
}

// again runs the tasks once more of which a test passed without the change and failed with it, to
// tell tests that the change breaks from flaky ones.
func (m *mining) again(ctx context.Context) error {
	second := &mining{host: m.host, req: m.req, staging: m.aside()}
	var at []int
	for i, c := range m.Candidates {
		if c.Reason == mine.BreaksTests {
			c.Reason, c.Detail = mine.Promising, ""
			second.Candidates = append(second.Candidates, c)
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	host.Linef(m.host.Output, "Running tasks again whose change seems to break a test, because the test may be flaky")
	err := second.run(ctx, "again", 1, 1, false, second.learn)
	m.Evidence = append(m.Evidence, second.Evidence...)
	for i, c := range second.Candidates {
		first := &m.Candidates[at[i]]
		if err != nil || c.Reason != mine.Promising && c.Reason != mine.BreaksTests {
			first.Reason, first.Detail = c.Reason, c.Detail
			continue
		}
		if !slices.Equal(first.Broken, c.Broken) {
			first.Reason, first.Detail = mine.Flaky, "tests that pass without the change fail with it in one run and pass in another"
		}
	}
	if err != nil {
		return m.take(nil, err, m.keep)
	}
	return nil
}

// aside returns the directory of tasks that run again before they are dropped.
func (m *mining) aside() string {
	return filepath.Join(filepath.Dir(m.staging), "again", filepath.Base(m.staging))
}

// setAside moves a task there.
func (m *mining) setAside(c *mine.Candidate) error {
	if err := os.MkdirAll(m.aside(), 0o755); err != nil {
		return err
	}
	return os.Rename(filepath.Join(m.staging, c.Task), filepath.Join(m.aside(), c.Task))
}

// keep moves a task into the dataset if it is proven.
func (m *mining) keep(c *mine.Candidate, r prove.TaskReport, _ *prove.Report) error {
	if c.Reason, c.Detail = judge(r); c.Reason != mine.Proven {
		return nil
	}
	dir := filepath.Join(m.staging, c.Task)
	if err := os.MkdirAll(m.host.Path(m.req.Out), 0o755); err != nil {
		return fmt.Errorf("make the dataset: %w", err)
	}
	return os.Rename(dir, m.out(c.Task))
}

// promising reports whether there is a task to run.
func (m *mining) promising() bool {
	return slices.ContainsFunc(m.Candidates, func(c mine.Candidate) bool { return c.Reason == mine.Promising })
}

// run runs the tasks that are promising, and calls do for each as take does.
func (m *mining) run(ctx context.Context, what string, oracle, nop int, offline bool, do func(*mine.Candidate, prove.TaskReport, *prove.Report) error) error {
	req := proof.ProveRequest{Job: m.req.Job, Runs: oracle, NopRuns: nop, Offline: offline, Reports: proof.ProveReports{GitHub: "off"}}
	req.Job.File = m.staging
	name := "mine-" + what + "-" + m.host.Now().Format("2006-01-02__15-04-05")
	req.Job.Overrides = append(slices.Clip(req.Job.Overrides), config.Override{Path: "name", Literal: name, Origin: "--name"})
	report, err := proof.Prove(ctx, m.host, req)
	return m.take(report, err, do)
}

// take calls do for each task of a report, which may be nil. If runs are missing, it returns why,
// and the tasks without a result are not known.
func (m *mining) take(report *prove.Report, err error, do func(*mine.Candidate, prove.TaskReport, *prove.Report) error) error {
	if report != nil {
		if report.Outcome() == prove.Stopped {
			err = errors.Join(err, host.Cancelled("cancelled before all commits were proven"))
		}
		if report.Dir != "" {
			m.Evidence = append(m.Evidence, report.Dir)
		}
		err = errors.Join(err, m.each(report, do))
	}
	for i := range m.Candidates {
		if c := &m.Candidates[i]; err != nil && c.Reason == mine.Promising {
			c.Reason, c.Detail = mine.NotKnown, "mining was interrupted"
		}
	}
	return err
}

// each calls do for each task of a report, and removes the tasks that are dropped.
func (m *mining) each(report *prove.Report, do func(*mine.Candidate, prove.TaskReport, *prove.Report) error) error {
	for _, r := range report.Tasks {
		i := slices.IndexFunc(m.Candidates, func(c mine.Candidate) bool { return c.Task == r.Task && c.Reason == mine.Promising })
		if i < 0 {
			continue
		}
		c := &m.Candidates[i]
		if err := do(c, r, report); err != nil {
			return err
		}
		if c.Reason != mine.Promising && c.Reason != mine.Proven {
			if err := os.RemoveAll(filepath.Join(m.staging, c.Task)); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn reads which tests passed without the change and with it, and writes the names that the task
// requires.
func (m *mining) learn(c *mine.Candidate, r prove.TaskReport, report *prove.Report) error {
	for _, trial := range slices.Concat(r.Runs.Oracle, r.Runs.Nop) {
		if trial.Error != nil {
			c.Reason, c.Detail = failed(trial)
			return nil
		}
	}
	if len(r.Runs.Oracle) == 0 || len(r.Runs.Nop) == 0 {
		c.Reason, c.Detail = otherwise(r)
		return nil
	}
	var texts [4]string
	for i, of := range []struct {
		trial result.Trial
		file  string
	}{{r.Runs.Nop[0], passedFile}, {r.Runs.Oracle[0], passedFile}, {r.Runs.Nop[0], nearFile}, {r.Runs.Oracle[0], nearFile}} {
		var err error
		if texts[i], err = m.passed(report, of.trial, of.file); err != nil {
			return err
		}
	}
	unnamed := filepath.Join(m.host.Path(report.Dir), r.Runs.Oracle[0].Dir(), result.VerifierDir, unnamedFile)
	if _, err := os.Lstat(unnamed); err == nil && texts[1] == "" {
		c.Reason, c.Detail = mine.Unnamed, "make test prints no names of tests and writes no JUnit XML"
		return nil
	}
	switch names, near := c.Names(texts[0], texts[1]), c.NearNames(texts[2], texts[3]); c.Reason {
	case mine.Promising:
		return mine.SetNames(c, filepath.Join(m.staging, c.Task), names, near)
	case mine.BreaksTests:
		return m.setAside(c)
	}
	return nil
}

// passed returns the names of the tests that passed in a trial, one a line.
func (m *mining) passed(report *prove.Report, trial result.Trial, file string) (string, error) {
	text, err := nofollow.ReadFile(filepath.Join(m.host.Path(report.Dir), trial.Dir(), result.VerifierDir, file), maxNames)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// judge returns what the proof says of a task.
func judge(r prove.TaskReport) (mine.Reason, string) {
	switch r.Verdict {
	case prove.Proven:
		return offline(r.Runs.Offline)
	case prove.Flaky:
		return mine.Flaky, "with the change: " + r.Runs.OracleString()
	case prove.Trivial:
		return mine.Flaky, "without the change: " + r.Runs.NopString()
	case prove.Broken:
		for _, trial := range r.Runs.Oracle {
			if trial.Error != nil {
				return failed(trial)
			}
		}
		return mine.Flaky, "with the change: " + r.Runs.OracleString() // it passed when the names were learned
	}
	return otherwise(r)
}

// offline returns what the runs without a network say of a task that is proven with one.
func offline(trials []result.Trial) (mine.Reason, string) {
	if len(trials) == 0 {
		return mine.NotKnown, "it was not run without a network"
	}
	for _, t := range trials {
		switch {
		case t.Error != nil && (t.Error.Type == result.Cancelled || t.Error.Type.Infrastructure()):
			return failed(t)
		case !t.Passed():
			return mine.NeedsNetwork, ""
		}
	}
	return mine.Proven, ""
}

// flaw returns the first finding because of which no task is made.
func flaw(findings []prove.Finding) (prove.Finding, bool) {
	i := slices.IndexFunc(findings, prove.Finding.Counts)
	if i < 0 {
		return prove.Finding{}, false
	}
	return findings[i], true
}

// otherwise returns the reason for a verdict that no run explains.
func otherwise(r prove.TaskReport) (mine.Reason, string) {
	for _, f := range r.Findings {
		if f.Counts() {
			why := mine.Flawed
			if r.Verdict.NothingKnown() {
				why = mine.NotKnown
			}
			return why, host.Clean(f.Rule + ": " + f.Message)
		}
	}
	return mine.NotKnown, r.Verdict.Words()
}

// failed returns the reason for a run that ended with an error.
func failed(trial result.Trial) (mine.Reason, string) {
	why := mine.NotKnown
	switch trial.Error.Type {
	case result.EnvironmentBuildFailed:
		why = mine.BuildFailed
	case result.EnvironmentBuildTimeout, result.VerifierTimeout, result.AgentExecutionTimeout:
		why = mine.TooSlow
	case result.AgentExecutionFailed, result.VerifierFailed, result.VerifierRewardMissing:
		why = mine.FailsAfter
	}
	return why, host.Clean(cmp.Or(trial.Error.Message, string(trial.Error.Type)))
}
