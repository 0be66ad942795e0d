package page

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/model/trajectory"
)

// SideBySide holds the turns of two attempts at one task, the other attempt on the left.
type SideBySide struct {
	Other, This string // what the columns are called
	Note        string // why it is not the baseline
	Alike       int    // turns at the beginning that are alike
	Rows        []PairRow
	More        int // turns that are left out
}

// PairRow holds the two turns with number N. The turn of an attempt that ended earlier is empty.
type PairRow struct {
	N           int
	Other, This PairTurn
	First       bool // the first that differs
}

// PairTurn is a turn of an agent, shortened.
type PairTurn struct {
	Text   string
	Failed bool // a tool call failed
	bytes  int
}

// Limits of the side-by-side view of turns.
const (
	minBeside = 1500 // bytes of all
	pairText  = 400  // bytes of a message, a call or a result
	pairBytes = 250  // of a row's HTML without its texts
)

// addSideBySide adds a side-by-side view of the turns of a trial and of another attempt, within
// size bytes: the baseline's attempt, or one of this job that passed, or else any. this is the
// trial's conversation; nil: it has none.
func (v *Trial) addSideBySide(in report.Input, t result.Trial, this *trajectory.Trajectory, size int) {
	other, from, label := comparedWith(in, t)
	if label == "" || size < minBeside || this == nil {
		return
	}
	that, err := report.Trajectory(from, path.Join(other.Dir(), result.ATIFFile))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			v.LeftOut = append(v.LeftOut, "the turns side by side with "+label+", whose "+result.ATIFFile+" cannot be read")
		}
		return
	}
	b := sideBySide(*that, *this, size)
	if len(b.Rows) == 0 {
		return
	}
	b.Other, b.This = label+rewarded(other.Reward), "this attempt"+rewarded(t.Reward)
	if in.Diff != nil && in.BaseFiles == nil {
		b.Note = "Of the baseline only the numbers are at hand, so this is another attempt of this job."
	}
	v.SideBySide = &b
}

func rewarded(reward *float64) string {
	if reward == nil {
		return ", no reward"
	}
	return ", reward " + report.Number(*reward)
}

// comparedWith returns the attempt that a trial is compared with, the input that has its files, and
// its label; "" if there is none.
func comparedWith(in report.Input, t result.Trial) (other result.Outcome, from report.Input, label string) {
	if base, ok := in.BaseOf(t); ok {
		return base, report.Input{Files: in.BaseFiles}, "the baseline's attempt " + strconv.Itoa(base.Attempt)
	}
	for _, o := range in.Trials {
		k := o.Key()
		same := k.Agent == t.Agent && k.Dataset == t.Dataset && k.Task == t.Task && k.Attempt != t.Attempt
		if same && (label == "" || o.Passed() && (other.Reward == nil || *other.Reward != 1)) {
			other, from, label = result.OutcomeOf(*o.Unpack()), in, "attempt "+strconv.Itoa(k.Attempt)
		}
	}
	return other, from, label
}

// sideBySide aligns the turns of two agents, within size bytes from one before the first that
// differs.
func sideBySide(other, this trajectory.Trajectory, size int) (b SideBySide) {
	left, right := turnsOf(other), turnsOf(this)
	most := max(len(left), len(right))
	for b.Alike < min(len(left), len(right)) && sameTurn(left[b.Alike], right[b.Alike]) {
		b.Alike++
	}
	first := b.Alike
	if first == most {
		return b // nothing differs
	}
	b.Alike = max(b.Alike-1, 0) // one is shown
	for i := b.Alike; i < most; i++ {
		row := PairRow{N: i + 1, First: i == first}
		if i < len(left) {
			row.Other = pairTurn(left[i])
		}
		if i < len(right) {
			row.This = pairTurn(right[i])
		}
		if size -= pairBytes + row.Other.bytes + row.This.bytes; size < 0 {
			b.More = most - i
			break
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// turnsOf returns the steps of an agent.
func turnsOf(record trajectory.Trajectory) (steps []trajectory.Step) {
	for _, s := range record.Steps {
		if s.Source == "agent" {
			steps = append(steps, s)
		}
	}
	return steps
}

// sameTurn reports whether two agents said and called the same.
func sameTurn(a, b trajectory.Step) bool {
	if a.Message != b.Message || len(a.Calls) != len(b.Calls) {
		return false
	}
	for i := range a.Calls {
		if a.Calls[i].Name != b.Calls[i].Name || arguments(a.Calls[i].Arguments) != arguments(b.Calls[i].Arguments) {
			return false
		}
	}
	return true
}

func pairTurn(s trajectory.Step) (t PairTurn) {
	var lines []string
	add := func(before, text string) {
		more := untrusted.Lines(excerpt.Middle(text, pairText))
		if len(more) > 0 {
			more[0] = before + more[0]
		}
		lines = append(lines, more...)
	}
	add("", s.Message)
	for _, c := range s.Calls[:min(len(s.Calls), 10)] {
		add("→ "+name(c.Name)+" ", arguments(c.Arguments))
	}
	if s.Observation != nil {
		for _, r := range s.Observation.Results[:min(len(s.Observation.Results), 10)] {
			mark := "← "
			if failed, _ := r.Extra["is_error"].(bool); failed {
				mark, t.Failed = "← failed: ", true
			}
			add(mark, r.Content)
		}
	}
	t.Text = strings.Join(lines, "\n")
	t.bytes = len(t.Text) * 9 / 8
	return t
}
