package comments

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// start is long after the real time, which must not matter.
var start = time.Date(2126, 11, 21, 12, 0, 0, 0, time.UTC)

// comment returns a comment of run n, which began n minutes after start.
func comment(n int, body string) Comment {
	return Comment{Job: "nightly", ValidAt: start.Add(time.Duration(n) * time.Minute), RunID: int64(100 + n), Attempt: 1, Body: body}
}

func TestDecide(t *testing.T) {
	want := comment(5, "mine")
	ours := want.marker().stamp
	older, newer := comment(4, "").marker().stamp, comment(6, "").marker().stamp
	for _, tc := range []struct {
		name    string
		there   []posted
		written bool
		expect  string // the decision
	}{
		{"no comment", nil, false, "create"},
		{"no comment, although we wrote one", nil, true, "create"},
		{"an equal body", []posted{{id: 1, stamp: ours, body: "mine\n"}}, false, ""},
		{"an equal body with other line breaks", []posted{{id: 1, stamp: older, body: " mine\r\n"}}, false, ""},
		{"ours with another text", []posted{{id: 1, stamp: ours, body: "not mine"}}, false, "edit 1"},
		{"ours, which a server returns with another text", []posted{{id: 1, stamp: ours, body: "not mine"}}, true, ""},
		{"ours was overwritten by an older one", []posted{{id: 1, stamp: older, body: "old"}}, true, "edit 1"},
		{"ours was overwritten by a newer one", []posted{{id: 1, stamp: newer, body: "new"}}, true, ""},
		{"another before ours", []posted{{id: 1, stamp: older, body: "old"}, {id: 2, stamp: ours, body: "mine"}}, true, "edit 1 remove 2"},
		{"another after ours", []posted{{id: 1, stamp: ours, body: "mine"}, {id: 2, stamp: older, body: "old"}}, true, "remove 2"},
		{"a newer one after ours", []posted{{id: 1, stamp: ours, body: "mine"}, {id: 2, stamp: newer, body: "new", text: "new"}}, true, "edit 1 remove 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := decide(tc.there, want, tc.written)
			var got []string
			if m.create {
				got = append(got, "create")
			}
			if m.edit != "" {
				got = append(got, fmt.Sprintf("edit %d", m.keep.id))
			}
			for _, p := range m.remove {
				got = append(got, fmt.Sprintf("remove %d", p.id))
			}
			if strings.Join(got, " ") != tc.expect || m.nothing() != (tc.expect == "") {
				t.Errorf("decided %q, want %q", got, tc.expect)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	for _, tc := range []struct {
		mode                    Mode
		changed, failed, exists bool
		want                    bool
	}{
		{Always, false, false, false, true},
		{Off, true, true, true, false},
		{Changes, false, false, false, false},
		{Changes, true, false, false, true},
		{Changes, false, true, false, true},
		{Changes, false, false, true, true},
		{Failures, true, false, false, false},
		{Failures, false, true, false, true},
		{Failures, true, false, true, true},
		{"", true, true, true, false},
	} {
		if got := ShouldComment(tc.mode, tc.changed, tc.failed, tc.exists); got != tc.want {
			t.Errorf("ShouldComment(%q, %v, %v, %v) = %v", tc.mode, tc.changed, tc.failed, tc.exists, got)
		}
	}
	for _, mode := range Modes {
		if got, err := ParseMode(" " + strings.ToUpper(string(mode))); got != mode || err != nil {
			t.Errorf("ParseMode of %s: %v, %v", mode, got, err)
		}
	}
	if _, err := ParseMode("sometimes"); err == nil {
		t.Error("an unknown mode was accepted")
	}
}
