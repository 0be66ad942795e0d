package gate

import (
	"strings"
	"testing"
	"time"
)

// TestAdvice: until its last day a policy that advises passes whatever the verdict is, and tells
// the verdict all the same; a week before the end it says when it ends.
func TestAdvice(t *testing.T) {
	at := func(day string) time.Time {
		when, err := time.Parse(time.DateTime, day)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	one := 1.0
	passed, failed := fall(4, 1)
	failing := Thresholds{MinPassRate: &one}
	for _, tc := range []struct {
		name       string
		mode       Mode
		until, now string
		passes     bool
		note       string // "": none
		reason     string // the end of the verdict's reason
	}{
		{"a gate that enforces", "", "", "2027-01-01 12:00:00", false, "", "is asked for"},
		{"advice without an end", ModeAdvise, "", "2027-01-01 12:00:00", true, "the gate only advises (gate.mode)", "does not make the check red, because the gate only advises"},
		{"long before the end", ModeAdvise, "2027-01-31", "2027-01-23 23:59:59", true, "until 2027-01-31: no verdict makes the check red before 2027-02-01", "only advises until 2027-01-31"},
		{"a week before the end", ModeAdvise, "2027-01-31", "2027-01-24 00:00:00", true, "for 7 days more, until 2027-01-31: from 2027-02-01 on, its verdict decides", "only advises until 2027-01-31 (7 days more)"},
		{"the day before", ModeAdvise, "2027-01-31", "2027-01-30 12:00:00", true, "for 1 day more", "only advises until 2027-01-31 (1 day more)"},
		{"the last day", ModeAdvise, "2027-01-31", "2027-01-31 23:59:59", true, "today is the last day on which the gate only advises: from 2027-02-01", "only advises until 2027-01-31, which is today"},
		{"the day after", ModeAdvise, "2027-01-31", "2027-02-01 00:00:00", false, "only advised until 2027-01-31: since then its verdict decides", "is asked for"},
		{"a day that is malformed", ModeAdvise, "soon", "2027-01-01 12:00:00", false, `no valid day in until ("soon")`, "is asked for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Policy{Thresholds: failing, Mode: tc.mode, Until: tc.until}
			v := p.Check(failed, nil, at(tc.now))
			if v.Outcome != Fail || v.Satisfied(p) || v.Passed(p) != tc.passes || v.Advised != tc.passes {
				t.Errorf("%s, advised %t, passed %t", v.Outcome, v.Advised, v.Passed(p))
			}
			if !strings.HasSuffix(v.Reason, tc.reason) {
				t.Errorf("reason: %s", v.Reason)
			}
			if notes := strings.Join(v.Notes, "\n"); !strings.Contains(notes, tc.note) || (tc.note == "") != (len(v.Notes) == 0) {
				t.Errorf("notes: %q", v.Notes)
			}
		})
	}
	t.Run("a verdict that passes says no more than the note", func(t *testing.T) {
		p := Policy{Mode: ModeAdvise, Until: "2027-01-31"}
		v := p.Check(passed, nil, at("2027-01-01 00:00:00"))
		if v.Outcome != Pass || strings.Contains(v.Reason, "advise") || len(v.Notes) != 1 {
			t.Errorf("%s: %s %q", v.Outcome, v.Reason, v.Notes)
		}
	})
	t.Run("an inconclusive verdict that would fail", func(t *testing.T) {
		v, p := Verdict{Outcome: Inconclusive, Advised: true}, Policy{OnInconclusive: Fail}
		if v.Satisfied(p) || !v.Passed(p) {
			t.Error("advice passes, and the policy is not satisfied")
		}
	})
}
