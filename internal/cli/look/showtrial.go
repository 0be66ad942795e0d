package look

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/quantity"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// printShownTrial prints a trial's story.
func printShownTrial(e command.Env, s inspect.ShownTrial, asJSON bool) error {
	if asJSON {
		return e.PrintJSON(struct {
			Trial  string             `json:"trial"`
			Dir    string             `json:"dir"`
			State  inspect.TrialState `json:"state"`
			Result *result.Trial      `json:"result"`
			Tests  *shownTests        `json:"tests"`
			Ends   []inspect.LogEnd   `json:"ends"`
			Logs   []string           `json:"logs"`
		}{s.Key.String(), s.Dir, s.State, s.Trial, testsOf(s.Tests), s.Ends, s.Logs})
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Trial: %s\nState: %s\n", untrusted.Line(s.Key.String()), s.State)
	if s.Trial != nil {
		writeOutcome(&b, *s.Trial)
		writePhases(&b, *s.Trial)
	}
	writeChecks(&b, s.Tests)
	for _, end := range s.Ends {
		fmt.Fprintf(&b, "\n%s\n", untrusted.Line(end.Caption))
		for _, line := range end.Lines {
			fmt.Fprintf(&b, "  │ %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\nFiles: %s\n", untrusted.ShellPath(s.Dir))
	for _, log := range s.Logs {
		fmt.Fprintf(&b, "  %s\n", untrusted.Line(log))
	}
	_, err := b.WriteTo(e.Stdout)
	return err
}

// writeAgents prints what each judge of a trial has said.
func writeAgents(w io.Writer, t result.Trial) {
	if len(t.Agents) == 0 {
		return
	}
	if t.TestsReward != nil {
		fmt.Fprintf(w, "Reward of the tests: %s\n", report.Number(*t.TestsReward))
	}
	for _, run := range t.Agents {
		if run.Role != result.RoleJudge {
			continue
		}
		score := "no score"
		switch {
		case run.Score != nil:
			score = report.Number(*run.Score)
		case run.Skipped:
			score = "did not run (when)"
		}
		who := tables.Cell(run.Agent)
		if run.Placement != "" {
			who += ", " + tables.Cell(run.Placement)
		}
		if u := run.Usage; u != nil {
			who += fmt.Sprintf(", %s, %s", tables.Cell(u.Requested), plural.Count(int(u.Turns), "turn"))
		}
		cost := report.Cost(run.Cost)
		if g := run.Group; g != nil {
			who += ", ranks the trials of the task"
			if g.Files != t.Key {
				cost = "its files and its cost are with " + untrusted.Line(g.Files.String())
			}
		}
		fmt.Fprintf(w, "Judge %s: %s (%s, %s)\n", tables.Cell(run.Name), score, who, cost)
		text := run.Reason
		if e := run.Error; e != nil {
			text = string(e.Type) + ": " + e.Message
		}
		for _, line := range untrusted.Lines(text) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
}

// writeOutcome prints a trial's outcome, its cost and where it ran.
func writeOutcome(w io.Writer, t result.Trial) {
	reward := "none"
	if t.Reward != nil {
		reward = report.Number(*t.Reward)
	}
	fmt.Fprintf(w, "Reward: %s\n", reward)
	if len(t.Rewards) > 1 {
		for _, name := range slices.Sorted(maps.Keys(t.Rewards)) {
			fmt.Fprintf(w, "  %s: %s\n", tables.Cell(name), report.Number(t.Rewards[name]))
		}
	}
	for _, s := range t.Steps {
		fmt.Fprintf(w, "Step %s: %s\n", tables.Cell(s.Name), untrusted.Line(report.Step(s)))
		if tests := s.Verifier; tests != nil {
			fmt.Fprintf(w, "  its tests ran in another environment, image %s\n", untrusted.Line(tests.Image))
		}
		if kept := s.Outcome; kept != nil {
			fmt.Fprintf(w, "  its outcome is kept as %s (%s)\n", untrusted.Line(kept.ID), quantity.Size(kept.Bytes))
		}
		if s.VerifiedOn != "" {
			fmt.Fprintf(w, "  its tests ran on %s\n", verifiedOn(s.VerifiedOn == result.OnArtifacts, s.VerifiedOn == result.OnOutcome))
		}
	}
	if t.VerifierExitCode != nil {
		fmt.Fprintf(w, "Verifier: exit code %d\n", *t.VerifierExitCode)
	}
	if e := t.Error; e != nil {
		fmt.Fprintf(w, "Error: %s\n", untrusted.Line(string(e.Type)))
		for _, line := range untrusted.Lines(e.Message) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	fmt.Fprintf(w, "Cost: %s\n", report.Cost(t.Cost))
	writeAgents(w, t)
	if t.Environment != nil {
		writeEnvironment(w, *t.Environment, len(t.Steps) > 0)
	}
	writeEarlier(w, t)
	if t.Confirmation {
		fmt.Fprintln(w, "Confirmation: an attempt to confirm that the task is broken or fixed")
	}
	writeNotes(w, t)
}

// writeEnvironment prints where a trial ran. ofSteps: its steps have printed the outcomes.
func writeEnvironment(w io.Writer, env result.Environment, ofSteps bool) {
	text := tables.Cell(env.Provider)
	if env.Image != "" {
		text += ", image " + untrusted.Line(env.Image)
	}
	if env.Preserved {
		text += ", kept as " + untrusted.Line(env.ID)
	}
	if kept := env.Outcome; kept != nil && !ofSteps {
		text += fmt.Sprintf(", outcome kept as %s (%s)", untrusted.Line(kept.ID), quantity.Size(kept.Bytes))
	}
	fmt.Fprintf(w, "Environment: %s\n", text)
	if tests := env.Verifier; tests != nil {
		fmt.Fprintf(w, "  the tests ran in another one, image %s\n", untrusted.Line(tests.Image))
	}
	if base := env.Base; base != nil {
		fmt.Fprintf(w, "  runs on %s instead of %s: %s\n", untrusted.Line(base.Actual), untrusted.Line(base.Requested), untrusted.Line(base.Reason))
	}
}

// writeEarlier prints which earlier job ran a trial, or its agent.
func writeEarlier(w io.Writer, t result.Trial) {
	if r := t.Reused; r != nil {
		fmt.Fprintf(w, "Reused: from job %s, %s\n", untrusted.Line(r.Job), untrusted.Line(r.From))
		if r.Commit != "" {
			fmt.Fprintf(w, "  commit %s\n", untrusted.Line(r.Commit))
		}
		if r.URL != "" {
			fmt.Fprintf(w, "  logs: %s\n", untrusted.Line(r.URL))
		}
	}
	if r := t.Reverified; r != nil {
		before := "no reward"
		if r.Reward != nil {
			before = fmt.Sprintf("reward %g", *r.Reward)
		}
		on := verifiedOn(r.Artifacts, r.Outcome)
		if len(t.Steps) > 0 && !r.OnlyJudges {
			on = "what each step kept"
		}
		fmt.Fprintf(w, "Verified again: its agent ran in job %s, %s, with %s; the tests ran on %s\n", untrusted.Line(r.Job), untrusted.Line(r.From), before, on)
	}
}

// verifiedOn returns what the tests of a trial that was verified again ran on.
func verifiedOn(artifacts, outcome bool) string {
	switch {
	case artifacts:
		return "its artifacts"
	case outcome:
		return "the files that the agent left"
	}
	return "the files that the earlier tests left"
}

// writeNotes prints what went wrong without ending the trial.
func writeNotes(w io.Writer, t result.Trial) {
	for _, warning := range t.Warnings {
		fmt.Fprintf(w, "Warning: %s\n", untrusted.Line(warning))
	}
	for _, r := range t.Retries {
		fmt.Fprintf(w, "Retried: %s, attempt %d: %s\n", untrusted.Line(r.Operation), r.Attempt, untrusted.Line(r.Message))
	}
	for _, o := range t.Omitted {
		fmt.Fprintf(w, "Left out: %s: %s\n", untrusted.Line(o.Path), untrusted.Line(o.Reason))
	}
}

// writePhases prints how long the phases of a trial took.
func writePhases(w io.Writer, t result.Trial) {
	d := t.Durations
	fmt.Fprintf(w, "Started: %s\n\n", t.Timestamps.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	table := tables.New(w)
	table.Row("PHASE", "TIME")
	for _, phase := range []struct {
		name    string
		seconds *float64
	}{
		{"environment setup", d.EnvironmentSetupSec}, {"  of it for the image", d.ImageSec}, {"agent setup", d.AgentSetupSec},
		{"agent execution", d.AgentExecutionSec}, {"verifier", d.VerifierSec}, {"judges", d.JudgesSec}, {"all", &d.TotalSec},
	} {
		switch {
		case phase.seconds != nil:
			table.Row(phase.name, report.Duration(*phase.seconds))
		case !strings.HasPrefix(phase.name, " ") && phase.name != "judges": // few trials have judges
			table.Row(phase.name, "–")
		}
	}
	_ = table.Flush() // to a buffer
}

// maxShownChecks bounds the list of a verifier's checks.
const maxShownChecks = 50

// writeChecks prints the test cases that a verifier reported, those that failed first.
func writeChecks(w io.Writer, tests *report.Tests) {
	if tests == nil {
		return
	}
	fmt.Fprintf(w, "\nChecks: %d passed, %d failed, %d skipped\n", tests.Passed, tests.Failed, tests.Skipped)
	for i, test := range tests.List {
		if i == maxShownChecks {
			fmt.Fprintf(w, "  and %d more\n", len(tests.List)-i)
			break
		}
		name := test.Name
		if test.Suite != "" {
			name = test.Suite + ": " + name
		}
		fmt.Fprintf(w, "  %s  %s\n", test.Status, tables.Cell(name))
		for _, line := range untrusted.Lines(test.Message) {
			fmt.Fprintf(w, "    │ %s\n", line)
		}
	}
}

// shownTests is the JSON form of a verifier's checks.
type shownTests struct {
	Passed  int         `json:"passed"`
	Failed  int         `json:"failed"`
	Skipped int         `json:"skipped"`
	List    []shownTest `json:"list"`
}

type shownTest struct {
	Suite   string            `json:"suite"`
	Name    string            `json:"name"`
	Status  report.TestStatus `json:"status"`
	Message string            `json:"message"`
}

func testsOf(tests *report.Tests) *shownTests {
	if tests == nil {
		return nil
	}
	out := &shownTests{Passed: tests.Passed, Failed: tests.Failed, Skipped: tests.Skipped, List: []shownTest{}}
	for _, t := range tests.List {
		out.List = append(out.List, shownTest{t.Suite, t.Name, t.Status, t.Message})
	}
	return out
}
