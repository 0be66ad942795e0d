package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/prompt"
)

// Trial is the section of a trial.
type Trial struct {
	ID                   string
	Agent, Dataset, Task string
	Attempt, Of          int
	State                string
	Summary              string // "reward 0.75 · $0.10 · 7s"; unknown values are omitted
	Dir                  string // the trial's directory
	Confirmation         bool
	Reused               *Reused // another job ran it; nil: this one did
	ErrorType, Error     string
	Caption              string
	Explains             []string // the lines that explain the error
	Phases               []Phase
	Rewards, Usage       []Fact
	Steps                []Fact // of a task with steps, with their outcomes
	Checks               *Checks
	Judges               []Judge
	Evidence             []Evidence // that judges were shown
	Retries, Warnings    []string
	Artifacts            []string
	Logs                 []Log
	Conversation         *Conversation
	SideBySide           *SideBySide
	Prompt               string // for a coding agent
	LeftOut              []string
	Open                 bool   // it has a separate page
	Files                []File // on that page
}

// Reused names the job that ran a trial. Logs is the address of its run, "" if it is not known.
type Reused struct{ Job, From, Commit, Logs string }

// reusedOf returns the mark of a trial that was taken over.
func reusedOf(r *result.Reused) *Reused {
	if r == nil {
		return nil
	}
	from := Reused{Job: name(r.Job), From: name(r.From), Commit: name(r.Commit)}
	if untrusted.URL(r.URL) != "" && !strings.ContainsFunc(r.URL, untrusted.Invisible) {
		from.Logs = r.URL
	}
	return &from
}

// Phase is a bar of the timeline. X and Width are in thousandths of the trial.
type Phase struct {
	Name, Time string
	X, Width   int
	Y          int
	Class      string
}

// Checks are the verifier's own test cases.
type Checks struct {
	File    string
	Passed  int
	All     int
	Skipped int
	List    []CheckCase
	More    int // that are not in List
}

// CheckCase is a test case.
type CheckCase struct{ Sign, Status, Name, Message string }

// Judge is the verdict of a judge.
type Judge struct {
	Name, Score, Reason, Error string
	Verdict                    string // JSON
	Criteria                   []Fact
	Prompt                     Folded
	Conversation               *Conversation // of a judge that is an agent
}

// Log is the end of a log.
type Log struct {
	Name  string
	Lines [][]untrusted.Span
	// Dropped names the parts that are left out; "" if there are none.
	Dropped string
	Href    string // of the whole log; "" if there is no page for it
	file    string // below the trial's directory
}

const (
	maxChecks = 30
	maxLogs   = 8   // files
	minLog    = 200 // bytes of one
)

// addTrials adds the sections of trials, and returns links to them, or to their pages. Those that
// did not pass come first.
func (p *Page) addTrials(in report.Input, cases []report.Case, d detail) map[result.Key]string {
	if d.pages != nil {
		return d.pages.trials(cases)
	}
	attempts := map[result.Key]int{}
	var shown []result.Packed
	for _, c := range report.Ordered(cases) {
		for _, a := range c.Attempts() {
			if key := c.Key(a); a.Trial.There() && attempts[key] == 0 {
				attempts[key] = c.Planned()
				shown = append(shown, a.Trial)
			}
		}
	}
	for _, t := range in.Trials {
		if k := t.Key(); t.Confirmation() && attempts[k] == 0 {
			attempts[k] = k.Attempt
			shown = append(shown, t)
		}
	}
	slices.SortStableFunc(shown, func(a, b result.Packed) int { return boolOrder(a.Passed(), b.Passed()) })
	hrefs := map[result.Key]string{}
	short := 0
	for i, packed := range shown[:min(len(shown), d.trials)] {
		t := packed.Unpack()
		id := "t" + strconv.Itoa(i+1)
		hrefs[t.Key] = "#" + id
		v := trial(in, *t, id, d.bytes, false)
		v.Of = max(attempts[t.Key], t.Attempt)
		v.addPrompt(d.prompts, in, *t, d.bytes/3)
		if len(v.LeftOut) > 0 {
			short++
		}
		p.Trials = append(p.Trials, v)
	}
	where := "the job's directory"
	if in.Dir != "" {
		where = name(in.Dir)
	}
	if more := len(shown) - len(p.Trials); more > 0 {
		p.LeftOut = append(p.LeftOut, "the sections of "+report.Plural(more, "trial")+", which are in "+where)
	}
	if short > 0 {
		p.LeftOut = append(p.LeftOut, "parts of logs and conversations of "+report.Plural(short, "trial")+", whose sections name them; the whole is in "+where)
	}
	return hrefs
}

// addPrompt adds the prompt of a trial that did not pass, within size bytes.
func (v *Trial) addPrompt(prompts *prompt.Prompts, in report.Input, t result.Trial, size int) {
	switch {
	case t.Passed() || prompts == nil || t.Error == nil && t.Reward == nil:
	case size < prompt.MinLimit:
		v.LeftOut = append(v.LeftOut, cut("the prompt: rollout show "+untrusted.ShellPath(in.Dir)+" "+untrusted.ShellPath(t.Key.String())+" --prompt", 400))
	default:
		v.Prompt = prompts.Of(t, min(size, prompt.Limit))
	}
}

func textBytes(lines []string) (n int) {
	for _, line := range lines {
		n += len(line) + 1
	}
	return n
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// trial returns the section of a trial with at most size bytes of logs and conversation. Those of a
// trial that passed are shorter, unless it is shown alone.
func trial(in report.Input, t result.Trial, id string, size int, alone bool) Trial {
	v := Trial{
		ID: id, Agent: name(t.Agent), Dataset: name(t.Dataset), Task: name(t.Task), Attempt: t.Attempt, State: stateOf(t),
		Summary: summary(t), Confirmation: t.Confirmation, Reused: reusedOf(t.Reused),
		Dir: cut(path.Join(in.Dir, t.Dir()), 400), Phases: phases(t), Usage: usage(t),
	}
	if t.Error != nil {
		v.ErrorType, v.Error = name(string(t.Error.Type)), oneLine(t.Error.Message)
	}
	for i, key := range slices.Sorted(maps.Keys(t.Rewards)) {
		if i == maxList {
			break
		}
		v.Rewards = append(v.Rewards, Fact{name(key), report.Number(t.Rewards[key])})
	}
	for i, s := range t.Steps {
		if i == maxList {
			v.Steps = append(v.Steps, Fact{"… and " + report.Count(len(t.Steps)-i) + " more", ""})
			break
		}
		text := report.Step(s)
		if s.Verifier != nil {
			text += "; its tests ran in another environment, " + s.Verifier.Image
		}
		v.Steps = append(v.Steps, Fact{name(s.Name), cut(text, 300)})
	}
	for _, r := range t.Retries[:min(len(t.Retries), 10)] {
		v.Retries = append(v.Retries, oneLine(r.Operation)+", attempt "+strconv.Itoa(r.Attempt)+": "+cut(r.Message, 300))
	}
	if more := len(t.Retries) - len(v.Retries); more > 0 {
		v.Retries = append(v.Retries, "… and "+report.Count(more)+" more")
	}
	for _, w := range t.Warnings[:min(len(t.Warnings), 10)] {
		v.Warnings = append(v.Warnings, cut(w, 300))
	}
	for i, a := range t.Artifacts {
		if i == maxList {
			v.Artifacts = append(v.Artifacts, "… and "+report.Count(len(t.Artifacts)-i)+" more")
			break
		}
		v.Artifacts = append(v.Artifacts, name(a.Path)+", "+report.Plural(a.Files, "file")+", "+report.Count(int(a.Bytes))+" bytes")
	}
	v.Judges = judges(t, min(size, 8000))
	judged := size / 4
	switch {
	case t.Passed() && !alone:
		judged = min(size/16, 6000)
		size = min(size/8, 2000)
	case size >= minDetails:
		file, log := report.Explain(in, t)
		if log = log.Telling(20, min(size/4, 4000), 300); !log.Empty() {
			v.Caption, v.Explains = report.Caption(log, cut(file, 400)), log.Lines()
		}
		v.Checks = checksOf(in, t, size/4)
		size -= textBytes(v.Explains)
	}
	v.addEvidence(in, t, judged)
	v.addLogs(in, t, size/3)
	if !t.Passed() || alone {
		v.addSideBySide(in, t, v.addConversation(in, t, size/2), size/6)
	}
	return v
}

// summary returns the numbers of a trial that are known.
func summary(t result.Trial) string {
	parts := []string{"no reward"}
	if t.Reward != nil {
		parts[0] = "reward " + report.Number(*t.Reward)
	}
	if _, ok := t.Cost.Reported(); ok {
		parts = append(parts, report.Cost(t.Cost))
	}
	return strings.Join(append(parts, report.Duration(result.OutcomeOf(t).TrialSec())), " · ")
}

// phases returns the timeline of a trial; nil if its phases have no times.
func phases(t result.Trial) []Phase {
	s := t.Timestamps
	total := s.EndedAt.Sub(s.StartedAt)
	if total <= 0 {
		return nil
	}
	var out []Phase
	for _, p := range append(spans(s), stepSpans(t)...) {
		at := func(when time.Time) int {
			return int(1000 * min(max(when.Sub(s.StartedAt).Seconds()/total.Seconds(), 0), 1))
		}
		from, to := at(p.from), at(p.to)
		out = append(out, Phase{
			Name: cmp.Or(p.step, phaseNames[p.phase]), Time: report.Duration(p.to.Sub(p.from).Seconds()),
			X: from, Width: max(to-from, 4), Y: 14 * len(out), Class: "phase" + strconv.Itoa(p.phase),
		})
	}
	return out
}

// phaseNames are those of a trial, in order.
var phaseNames = [...]string{"Environment setup", "Agent setup", "Agent", "Verifier", "Judges"}

// span is a phase of a trial.
type span struct {
	phase    int    // an index of phaseNames
	step     string // of a task with steps: "Step build"
	from, to time.Time
}

// stepSpans returns a span for each step of a trial: its setup, its agent and its tests.
func stepSpans(t result.Trial) (out []span) {
	const agent = 2
	for _, s := range t.Steps[:min(len(t.Steps), maxList)] {
		if !s.StartedAt.IsZero() && !s.EndedAt.Before(s.StartedAt) {
			out = append(out, span{agent, "Step " + name(s.Name), s.StartedAt, s.EndedAt})
		}
	}
	return out
}

// spans returns the phases that began and ended.
func spans(s result.Timestamps) (out []span) {
	for i, p := range [len(phaseNames)][2]*time.Time{
		{s.EnvironmentSetupStartedAt, s.EnvironmentSetupEndedAt},
		{s.AgentSetupStartedAt, s.AgentSetupEndedAt},
		{s.AgentExecutionStartedAt, s.AgentExecutionEndedAt},
		{s.VerifierStartedAt, s.VerifierEndedAt},
		{s.JudgesStartedAt, s.JudgesEndedAt},
	} {
		if p[0] != nil && p[1] != nil {
			out = append(out, span{phase: i, from: *p[0], to: *p[1]})
		}
	}
	return out
}

// usage returns what the agent used, and what the parts of the trial cost.
func usage(t result.Trial) []Fact {
	var out []Fact
	add := func(name, value string) { out = append(out, Fact{name, value}) }
	if u := t.Usage; u != nil {
		add("Turns", report.Count(int(u.Turns)))
		for _, n := range []struct {
			name  string
			count *int64
		}{{"Input tokens", u.InputTokens}, {"of which cached", u.CachedTokens}, {"Output tokens", u.OutputTokens}} {
			if n.count != nil {
				add(n.name, report.Tokens(float64(*n.count)))
			}
		}
		if u.Requested != "" {
			add("Model", name(strings.Join(slices.Concat([]string{u.Requested}, u.Answered), " → ")))
		}
	}
	for _, c := range []struct {
		name string
		cost result.USD
	}{{"Cost of the model", t.Costs.Model}, {"Cost of judges", t.Costs.Judges}, {"Cost of the environment", t.Costs.Environment}} {
		if _, ok := c.cost.Reported(); ok {
			add(c.name, report.Cost(c.cost))
		}
	}
	if t.StopCondition != "" {
		add("Stopped by", name(t.StopCondition))
	}
	if e := t.Environment; e != nil && e.Verifier != nil && len(t.Steps) == 0 {
		add("Tests ran in another environment", name(e.Verifier.Image))
	}
	return out
}

func checksOf(in report.Input, t result.Trial, size int) *Checks {
	tests, ok := report.VerifierTests(in, t)
	if !ok {
		return nil
	}
	c := &Checks{File: cut(tests.File, 400), Passed: tests.Passed, Skipped: tests.Skipped, All: tests.Passed + tests.Failed + tests.Skipped}
	for _, test := range tests.List[:min(len(tests.List), maxChecks)] {
		sign := map[report.TestStatus]string{report.TestPassed: "✓", report.TestFailed: "✗"}[test.Status]
		one := CheckCase{cmp.Or(sign, "–"), string(test.Status), cut(test.Name, 200), cut(test.Message, 400)}
		if size -= 100 + len(one.Name) + len(one.Message); size < 0 {
			break
		}
		c.List = append(c.List, one)
	}
	c.More = max(c.All-len(c.List), 0)
	return c
}

func judges(t result.Trial, size int) []Judge {
	var out []Judge
	for _, run := range t.Agents {
		if run.Role != result.RoleJudge || len(out) == maxList {
			continue
		}
		j := Judge{Name: name(run.Name), Score: "–", Reason: cut(run.Reason, min(size, 2000))}
		if run.Score != nil {
			j.Score = report.Number(*run.Score)
		}
		if run.Skipped {
			j.Score = "not run"
		}
		if run.Error != nil {
			j.Error = cut(string(run.Error.Type)+": "+run.Error.Message, 500)
		}
		for _, key := range slices.Sorted(maps.Keys(run.Criteria)) {
			if len(j.Criteria) < maxList {
				j.Criteria = append(j.Criteria, Fact{name(key), report.Number(run.Criteria[key])})
			}
		}
		var verdict bytes.Buffer
		if len(run.Verdict) > 0 && json.Indent(&verdict, run.Verdict, "", "  ") == nil && verdict.Len() < size/2 {
			j.Verdict = strings.Join(untrusted.Lines(verdict.String()), "\n")
		}
		out = append(out, j)
	}
	return out
}

// addLogs adds the ends of the trial's logs, within size bytes.
func (v *Trial) addLogs(in report.Input, t result.Trial, size int) {
	files := slices.DeleteFunc(report.Logs(in, t), func(file string) bool { return path.Base(file) == result.ResultFile })
	count := min(len(files), maxLogs, size/minLog)
	share := min(size/max(count, 1), 32<<10)
	for i, file := range files {
		shown := cut(strings.TrimPrefix(file, t.Dir()+"/"), 200)
		if i >= count {
			v.LeftOut = append(v.LeftOut, "the log "+shown)
			continue
		}
		log := Log{Name: shown, file: strings.TrimPrefix(file, t.Dir()+"/")}
		head, tail, dropped := report.RawEnds(in, file)
		dropped += int64(len(head))
		if over := len(tail) - share; over > 0 {
			if n := bytes.IndexByte(tail[over:], '\n'); n >= 0 && n < share/2 {
				over += n + 1
			}
			tail, dropped = tail[over:], dropped+int64(over)
		}
		if dropped > 0 {
			log.Dropped = report.Count(int(dropped)) + " bytes before this"
			v.LeftOut = append(v.LeftOut, report.Count(int(dropped))+" bytes of the log "+shown)
		}
		log.Lines = untrusted.Styled(string(tail))
		v.Logs = append(v.Logs, log)
	}
}
