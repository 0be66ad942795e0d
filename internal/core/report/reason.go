package report

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Kinds of failures that are not types of errors.
const (
	BelowOne   = "reward below 1"
	OtherError = "another error" // a type of error that no Rollout writes
)

// errorName matches types of errors. Others, from a forged artifact, are not shown.
var errorName = regexp.MustCompile(`^[a-z][a-z_]{0,60}$`)

// FailureKind returns the kind by which reports group trials that did not pass: the type of the
// error, BelowOne or OtherError. It is safe to show.
func FailureKind(t result.Trial) string {
	switch {
	case t.Error == nil:
		return BelowOne
	case !errorName.MatchString(string(t.Error.Type)):
		return OtherError
	}
	return string(t.Error.Type)
}

// Reason groups trials that did not pass for the same reason: they have the same kind of failure,
// and their messages and the logs that explain them are alike.
type Reason struct {
	Kind   string          // see FailureKind
	Trials []result.Packed // at least one, by key
	// File and Log explain the first trial (see Explain); File is relative to the trial's
	// directory. Both are empty if no log does. A log that only repeats the error's message is left
	// out.
	File string
	Log  excerpt.Text
	// Unread: there were too many trials to read the logs of these, so only their messages are
	// alike.
	Unread bool
}

// maxRead bounds how many trials' logs Reasons reads.
const maxRead = 1000

// Reasons groups trials that have an error or a reward below 1 by reason. Each log is shortened to
// so many lines. Kinds come in the order of their first trial, and within a kind the reason with
// most trials comes first. Cancelled trials are one reason, without a log. trials are in order of
// their keys; they are not changed.
func Reasons(in Input, trials []result.Packed, lines int) []Reason {
	byKind := map[string][]result.Packed{}
	var kinds []string
	for _, t := range trials {
		if !t.Errored() && (!t.Completed() || t.Passed()) {
			continue
		}
		kind := BelowOne
		if t.Errored() {
			kind = FailureKind(*t.Unpack())
		}
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], t)
	}
	var reasons []Reason
	left := maxRead
	for _, kind := range kinds {
		read := min(left, max(maxRead/len(kinds), 1), len(byKind[kind]))
		if kind == string(result.Cancelled) {
			reasons = append(reasons, Reason{Kind: kind, Trials: byKind[kind]})
			continue
		}
		left -= read
		reasons = append(reasons, alike(in, byKind[kind], kind, lines, read)...)
	}
	return reasons
}

// alike groups trials of one kind. It reads the logs of the first read trials.
func alike(in Input, trials []result.Packed, kind string, lines, read int) []Reason {
	var reasons []Reason
	at := map[string]int{}
	for i, t := range trials {
		r := Reason{Kind: kind, Unread: i >= read}
		sign := ""
		if t.Errored() {
			whole := t.Unpack()
			sign = sketch(untrusted.Cut(whole.Error.Message, 2<<10), whole.Key)
		}
		if r.Unread {
			sign += "\x00unread"
		} else {
			whole := t.Unpack()
			r.File, r.Log = explainAfterMessage(in, *whole, lines)
			sign += "\x00" + r.File + "\x00" + sketch(strings.Join(r.Log.Lines(), "\n"), whole.Key)
		}
		n, ok := at[sign]
		if !ok {
			n = len(reasons)
			at[sign] = n
			reasons = append(reasons, r)
		}
		reasons[n].Trials = append(reasons[n].Trials, t)
	}
	slices.SortStableFunc(reasons, func(a, b Reason) int {
		return cmp.Or(compareBool(a.Unread, b.Unread), cmp.Compare(len(b.Trials), len(a.Trials)))
	})
	return reasons
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// explainAfterMessage returns what Explain does, and nothing if a report that already shows the
// error's message would only repeat it.
func explainAfterMessage(in Input, t result.Trial, lines int) (file string, log excerpt.Text) {
	file, log = Explain(in, t)
	if log.Empty() {
		return "", excerpt.Text{}
	}
	if path.Base(file) == result.ErrorFile && t.Error != nil && log.LeftOut() == 0 {
		all := slices.Concat(log.Head, log.Tail)
		message := untrusted.Lines(string(t.Error.Type) + ": " + t.Error.Message)
		if len(message) > 0 && excerpt.Line(message[0], explainWidth) == all[0] {
			log = excerpt.Text{Tail: all[1:]}
		}
		if log.Empty() {
			return "", excerpt.Text{}
		}
	}
	return strings.TrimPrefix(file, t.Dir()+"/"), log.Telling(lines, explainBytes, explainWidth)
}

// digits matches text that differs between runs of the same failure: numbers, times, addresses,
// digests.
var digits = regexp.MustCompile(`0x[0-9a-fA-F]+|[0-9a-fA-F]*[0-9][0-9a-fA-F]*`)

// sketch removes from a text the parts that differ between trials that failed alike: numbers, and
// the task's name.
func sketch(text string, k result.Key) string {
	if len(k.Task) >= 4 { // a shorter name may be part of any word
		text = strings.ReplaceAll(text, k.Task, "\x01")
	}
	return digits.ReplaceAllString(text, "0")
}
