package mine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/internal/test/apptest"
)

// What fails the proof has a reason that says how.
func TestJudge(t *testing.T) {
	passed := result.Trial{Reward: new(1.0)}
	failed := result.Trial{Reward: new(0.0)}
	ended := func(kind result.ErrorType) result.Trial {
		return result.Trial{Error: &result.Error{Type: kind, Message: "it said\x1b[31m no"}}
	}
	for _, tc := range []struct {
		name    string
		verdict prove.Verdict
		runs    prove.Runs
		want    mine.Reason
	}{
		{"proven", prove.Proven, prove.Runs{Oracle: []result.Trial{passed}, Offline: []result.Trial{passed}}, mine.Proven},
		{"proven with a network alone", prove.Proven, prove.Runs{Oracle: []result.Trial{passed}, Offline: []result.Trial{failed}}, mine.NeedsNetwork},
		{"proven, and interrupted before the run without a network", prove.Proven, prove.Runs{Oracle: []result.Trial{passed}}, mine.NotKnown},
		{"proven, and the run without a network was cancelled", prove.Proven, prove.Runs{Oracle: []result.Trial{passed}, Offline: []result.Trial{ended(result.Cancelled)}}, mine.NotKnown},
		{"proven, and without a network the tests hang", prove.Proven, prove.Runs{Oracle: []result.Trial{passed}, Offline: []result.Trial{ended(result.VerifierTimeout)}}, mine.NeedsNetwork},
		{"the change passes sometimes", prove.Flaky, prove.Runs{Oracle: []result.Trial{passed, failed}}, mine.Flaky},
		{"the change passed once and never again", prove.Broken, prove.Runs{Oracle: []result.Trial{failed}}, mine.Flaky},
		{"nothing passes sometimes", prove.Trivial, prove.Runs{Nop: []result.Trial{passed, failed}}, mine.Flaky},
		{"the tests take too long", prove.Broken, prove.Runs{Oracle: []result.Trial{ended(result.VerifierTimeout)}}, mine.TooSlow},
		{"the image cannot be built", prove.Broken, prove.Runs{Oracle: []result.Trial{ended(result.EnvironmentBuildFailed)}}, mine.BuildFailed},
		{"the change cannot be made", prove.Broken, prove.Runs{Oracle: []result.Trial{ended(result.AgentExecutionFailed)}}, mine.FailsAfter},
		{"the machine failed", prove.Unknown, prove.Runs{}, mine.NotKnown},
	} {
		if got, detail := judge(prove.TaskReport{Verdict: tc.verdict, Runs: tc.runs}); got != tc.want || detail == "it said\x1b[31m no" {
			t.Errorf("%s: %s (%q), want %s", tc.name, got, detail, tc.want)
		}
	}
	flawed := prove.TaskReport{Verdict: prove.Flawed, Findings: []prove.Finding{{Rule: "crlf", Severity: prove.Error, Message: "a carriage return"}}}
	if got, detail := judge(flawed); got != mine.Flawed || detail != "crlf: a carriage return" {
		t.Errorf("flawed: %s (%q)", got, detail)
	}
}

// An interrupted mining keeps what was proven until then, and says of the rest that it is not
// known.
func TestInterruptedMiningKeepsProvenTasks(t *testing.T) {
	h, _ := apptest.New(t)
	m := &mining{host: h, req: Request{Out: "mined"}, staging: t.TempDir()}
	for _, name := range []string{"one", "two", "three"} {
		m.Candidates = append(m.Candidates, mine.Candidate{Task: name, Reason: mine.Promising})
		if err := os.Mkdir(filepath.Join(m.staging, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	passed := []result.Trial{{Reward: new(1.0)}}
	report := &prove.Report{Dir: "jobs/mine-proof", Cancelled: true, Tasks: []prove.TaskReport{
		{Task: "one", Verdict: prove.Proven, Runs: prove.Runs{Oracle: passed, Offline: passed}}, {Task: "two", Verdict: prove.NotRun},
	}}
	if err := m.take(report, nil, m.keep); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("%v, want the cancel", err)
	}
	if err := m.take(nil, errors.New("no engine"), m.keep); err == nil || err.Error() != "no engine" {
		t.Errorf("%v, want the error", err)
	}
	var got []mine.Reason
	for _, c := range m.Candidates {
		got = append(got, c.Reason)
	}
	if want := []mine.Reason{mine.Proven, mine.NotKnown, mine.NotKnown}; !slices.Equal(got, want) {
		t.Errorf("reasons %v, want %v", got, want)
	}
	if !m.exists("one") || m.exists("two") || m.exists("three") || !slices.Equal(m.Evidence, []string{"jobs/mine-proof"}) {
		t.Errorf("the dataset has one: %t, two: %t, three: %t; evidence %q", m.exists("one"), m.exists("two"), m.exists("three"), m.Evidence)
	}
}
