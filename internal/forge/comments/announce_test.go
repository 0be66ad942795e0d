package comments

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// page is a Thread in memory.
type page struct {
	entries []Entry
	edits   int
	err     error  // of each edit
	meet    func() // is called after each edit; nil: nothing is
	ended   map[int64]bool
	unknown bool // whether a run has ended
}

func (p *page) Ended(_ context.Context, run int64) (bool, error) {
	if p.unknown {
		return false, errors.New("not known")
	}
	return p.ended[run], nil
}

func (p *page) List(context.Context) ([]Entry, error) { return slices.Clone(p.entries), nil }

func (p *page) Create(_ context.Context, text string) (Entry, error) {
	e := Entry{ID: int64(len(p.entries) + 1), Text: text}
	p.entries = append(p.entries, e)
	return e, nil
}

func (p *page) Edit(_ context.Context, id int64, text string) error {
	if p.err != nil {
		return p.err
	}
	p.edits++
	i := slices.IndexFunc(p.entries, func(e Entry) bool { return e.ID == id })
	p.entries[i].Text = strings.ReplaceAll(text, "\n", "\r\n") // as servers do
	if p.meet != nil {
		p.meet()
	}
	return nil
}

func (p *page) Remove(_ context.Context, id int64) error {
	p.entries = slices.DeleteFunc(p.entries, func(e Entry) bool { return e.ID == id })
	return nil
}

// text returns the only comment without its markers.
func (p *page) text(t *testing.T) string {
	t.Helper()
	if len(p.entries) != 1 {
		t.Fatalf("there are %d comments: %+v", len(p.entries), p.entries)
	}
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(p.entries[0].Text, "\r\n", "\n")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "<!--") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " | ")
}

const limit = 65536

func settled(context.Context) error { return nil }

// step is an operation of a run on its comment.
type step struct {
	run    int
	act    string // announce, verdict, cancel
	late   int    // minutes after which its trials began
	again  int    // further attempts of the run
	action Action
	text   string // the comment afterwards
}

func TestAnnouncements(t *testing.T) {
	const first = "verdict of 0"
	for name, steps := range map[string][]step{
		"a run": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "verdict", 0, 0, Updated, "verdict of 1"},
		},
		"the trials begin later than the announcement": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "verdict", 30, 0, Updated, "verdict of 1"},
		},
		"the clock of the machine that announces is ahead": {
			{1, "announce", 20, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "verdict", 0, 0, Updated, "verdict of 1"},
		},
		"a superseded run ends first": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {2, "announce", 0, 0, Updated, "evaluating 2 | verdict of 0"},
			{1, "verdict", 0, 0, Outdated, "evaluating 2 | verdict of 0"}, {2, "verdict", 0, 0, Updated, "verdict of 2"},
		},
		"a superseded run ends last": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {2, "announce", 0, 0, Updated, "evaluating 2 | verdict of 0"},
			{2, "verdict", 0, 0, Updated, "verdict of 2"}, {1, "verdict", 0, 0, Outdated, "verdict of 2"}, {1, "cancel", 0, 0, Outdated, "verdict of 2"},
		},
		"a superseded run announces last": {
			{2, "announce", 0, 0, Updated, "evaluating 2 | verdict of 0"}, {1, "announce", 0, 0, Outdated, "evaluating 2 | verdict of 0"},
			{1, "verdict", 0, 0, Outdated, "evaluating 2 | verdict of 0"}, {2, "verdict", 0, 0, Updated, "verdict of 2"},
		},
		"the trials of a superseded run had to wait for machines": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {2, "announce", 0, 0, Updated, "evaluating 2 | verdict of 0"},
			{1, "verdict", 30, 0, Outdated, "evaluating 2 | verdict of 0"}, {2, "verdict", 0, 0, Updated, "verdict of 2"},
			{1, "verdict", 30, 0, Outdated, "verdict of 2"},
		},
		"a cancelled run": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "cancel", 0, 0, Updated, "cancelled 1 | verdict of 0"},
			{2, "announce", 0, 0, Updated, "evaluating 2 | verdict of 0"}, {2, "verdict", 0, 0, Updated, "verdict of 2"},
		},
		"a run that began before an earlier one was cancelled": {
			{1, "announce", 10, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "cancel", 25, 0, Updated, "cancelled 1 | verdict of 0"},
			{2, "verdict", 20, 0, Updated, "verdict of 2"},
		},
		"a run that announces after an earlier one was cancelled": {
			{1, "announce", 30, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "cancel", 35, 0, Updated, "cancelled 1 | verdict of 0"},
			{2, "announce", 20, 0, Updated, "evaluating 2 | verdict of 0"}, {2, "verdict", 20, 0, Updated, "verdict of 2"},
		},
		"a run that a newer one cancelled": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {2, "announce", 0, 0, Updated, "evaluating 2 | verdict of 0"},
			{1, "cancel", 0, 0, Outdated, "evaluating 2 | verdict of 0"},
		},
		"a run that is resumed": { // it began when it began first
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "cancel", 0, 0, Updated, "cancelled 1 | verdict of 0"},
			{1, "announce", 0, 1, Updated, "evaluating 1 | verdict of 0"}, {1, "verdict", 0, 1, Updated, "verdict of 1"},
		},
		"only a part of a run is run again": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "verdict", 0, 1, Updated, "verdict of 1"},
		},
		"a run that is run again after a newer one": { // its commit is still the older one
			{2, "announce", 0, 0, Updated, "evaluating 2 | verdict of 0"}, {1, "announce", 30, 1, Outdated, "evaluating 2 | verdict of 0"},
			{1, "verdict", 31, 1, Outdated, "evaluating 2 | verdict of 0"}, {2, "verdict", 0, 0, Updated, "verdict of 2"},
			{1, "announce", 40, 2, Outdated, "verdict of 2"}, {1, "verdict", 41, 2, Outdated, "verdict of 2"},
		},
		"a cancelled attempt ends the announcement of the one before": {
			{1, "announce", 0, 0, Updated, "evaluating 1 | verdict of 0"}, {1, "cancel", 0, 1, Updated, "cancelled 1 | verdict of 0"},
		},
		"nothing was announced":               {{1, "cancel", 0, 0, Outdated, first}},
		"the announcement of another attempt": {{1, "announce", 0, 1, Updated, "evaluating 1 | verdict of 0"}, {1, "cancel", 0, 0, Outdated, "evaluating 1 | verdict of 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &page{}
			if _, err := p.Create(t.Context(), comment(0, "verdict of 0").Text()); err != nil {
				t.Fatal(err)
			}
			for i, s := range steps {
				c := comment(s.run, "")
				c.ValidAt, c.Attempt = c.ValidAt.Add(time.Duration(s.late)*time.Minute), 1+s.again
				who := string(rune('0' + s.run))
				var action Action
				var err error
				switch s.act {
				case "announce":
					c.Body = "evaluating " + who
					action, err = Announce(t.Context(), p, c, limit, settled)
				case "cancel":
					c.Body = "cancelled " + who
					action, err = Withdraw(t.Context(), p, c, limit, settled)
				default:
					c.Body = "verdict of " + who
					var r Result
					r, err = Upsert(t.Context(), p, c, settled)
					action = r.Action
				}
				if text := p.text(t); err != nil || action != s.action || text != s.text {
					t.Errorf("step %d: %s %v: %q; want %s: %q", i, action, err, text, s.action, s.text)
				}
			}
		})
	}
}

// The first comment of a job is a verdict.
func TestAnnounceCreatesNothing(t *testing.T) {
	other := comment(0, "verdict")
	other.Job = "another"
	p := &page{entries: []Entry{{ID: 1, Text: other.Text()}, {ID: 2, Text: "text"}}}
	if action, err := Announce(t.Context(), p, comment(1, "evaluating"), limit, settled); action != Absent || err != nil || p.edits > 0 {
		t.Errorf("%s %v, %+v", action, err, p.entries)
	}
}

// A run that somebody asked for creates the comment, and its verdict takes the place of all of it.
func TestBeginCreatesTheComment(t *testing.T) {
	p := &page{}
	if action, err := Begin(t.Context(), p, comment(1, "evaluating 1\n\nan estimate"), limit, settled); action != Created || err != nil || p.text(t) != "evaluating 1 | an estimate | *There is none yet.*" {
		t.Errorf("%s %v: %+v", action, err, p.entries)
	}
	if action, err := Begin(t.Context(), p, comment(2, "evaluating 2"), limit, settled); action != Updated || err != nil || p.text(t) != "evaluating 2 | *There is none yet.*" {
		t.Errorf("%s %v: %+v", action, err, p.entries)
	}
	if action, err := Withdraw(t.Context(), p, comment(2, "over 2"), limit, settled); action != Updated || err != nil || p.text(t) != "over 2 | *There is none yet.*" {
		t.Errorf("%s %v: %+v", action, err, p.entries)
	}
	if r, err := Upsert(t.Context(), p, comment(3, "verdict of 3"), settled); r.Action != Updated || err != nil || p.text(t) != "verdict of 3" {
		t.Errorf("%s %v: %+v", r.Action, err, p.entries)
	}
	if action, err := Begin(t.Context(), &page{}, comment(1, strings.Repeat("x", limit)), limit, settled); action != Absent || err != nil {
		t.Errorf("too large: %s %v", action, err)
	}
}

// An older run that writes at the same moment does not undo an announcement.
func TestAnnounceChecksAgain(t *testing.T) {
	p := &page{entries: []Entry{{ID: 1, Text: comment(0, "verdict of 0").Text()}}}
	p.meet = func() {
		p.meet = nil
		p.entries[0].Text = comment(1, "verdict of 1").Text()
	}
	action, err := Announce(t.Context(), p, comment(2, "evaluating 2"), limit, settled)
	if text := p.text(t); action != Updated || err != nil || text != "evaluating 2 | verdict of 1" {
		t.Errorf("%s %v: %q", action, err, text)
	}
}

func TestAnnounceStaysWithinTheLimit(t *testing.T) {
	c := comment(0, "")
	c.Body = strings.Repeat("é", (limit-c.Overhead()-NoticeRoom)/2)
	for body, want := range map[string]Action{c.Body: Updated, strings.Repeat("x", limit-c.Overhead()): Absent} {
		c.Body = body
		p := &page{entries: []Entry{{ID: 1, Text: c.Text()}}}
		action, err := Announce(t.Context(), p, comment(1, "evaluating"), limit, settled)
		size := len(strings.ReplaceAll(p.entries[0].Text, "\r\n", "\n"))
		if action != want || err != nil || size > limit || want == Absent && p.edits > 0 {
			t.Errorf("%s %v, and %d bytes", action, err, size)
		}
	}
}

// Users with write access can edit our comments: the edited text counts as the last verdict.
func TestAnnounceAboveAnEditedComment(t *testing.T) {
	head := comment(0, "").marker().String() + "\n"
	for text, want := range map[string]string{
		head: "evaluating", head + goingStart: "evaluating", head + noticeEnd + "text": "evaluating | text",
		head + goingStart + "evaluating\n" + noticeEnd + "a\n" + noticeEnd + "b": "evaluating | a | b",
		head + goingStart + "one\ntwo":                                           "evaluating | one | two",
		strings.TrimSpace(head):                                                  "evaluating",
	} {
		p := &page{entries: []Entry{{ID: 1, Text: text}}}
		action, err := Announce(t.Context(), p, comment(1, "evaluating"), limit, settled)
		if got := p.text(t); action != Updated || err != nil || got != want {
			t.Errorf("%q: %s %v: %q, want %q", text, action, err, got, want)
		}
		if r, err := Upsert(t.Context(), p, comment(1, "verdict"), settled); r.Action != Updated || err != nil || p.text(t) != "verdict" {
			t.Errorf("%q: %+v %v: %q", text, r, err, p.text(t))
		}
	}
}

func TestAnnounceReportsErrors(t *testing.T) {
	gone := &UncertainError{errors.New("not found")}
	refused := errors.New("refused")
	for _, fail := range []error{gone, refused} {
		p := &page{err: fail, entries: []Entry{{ID: 1, Text: comment(0, "verdict").Text()}}}
		action, err := Announce(t.Context(), p, comment(1, "evaluating"), limit, settled)
		if fail == gone && (action != Absent || err != nil) || fail == refused && !errors.Is(err, refused) {
			t.Errorf("%v: %s %v", fail, action, err)
		}
	}
}

// A run that had read the announcement before it was withdrawn may restore it.
func TestWithdrawChecksAgain(t *testing.T) {
	p := &page{entries: []Entry{{ID: 1, Text: comment(0, "verdict of 0").Text()}}}
	if _, err := Announce(t.Context(), p, comment(1, "evaluating 1"), limit, settled); err != nil {
		t.Fatal(err)
	}
	announced := p.entries[0].Text
	p.meet = func() {
		p.meet = nil
		p.entries[0].Text = announced
	}
	action, err := Withdraw(t.Context(), p, comment(1, "cancelled 1"), limit, settled)
	if text := p.text(t); action != Updated || err != nil || text != "cancelled 1 | verdict of 0" {
		t.Errorf("%s %v: %q", action, err, text)
	}
	// A verdict that was written meanwhile stays.
	p.entries[0].Text = announced
	p.meet = func() {
		p.meet = nil
		p.entries[0].Text = comment(2, "verdict of 2").Text()
	}
	action, err = Withdraw(t.Context(), p, comment(1, "cancelled 1"), limit, settled)
	if text := p.text(t); action != Updated || err != nil || text != "verdict of 2" {
		t.Errorf("%s %v: %q", action, err, text)
	}
}

// Each command that finds the announcement of a newer run says so if that run is over.
func TestAnnouncementsOfRunsThatEndedLapse(t *testing.T) {
	const over = "⏹️ The evaluation of `abc` ended without a verdict. ([run](u)) This is the verdict before it: | verdict of 0"
	since := comment(2, "").ValidAt
	going := Going("`abc`", "[run](u)", since)
	for name, tc := range map[string]struct {
		page page
		line string
		late time.Duration
		want string
	}{
		"it goes on":                   {page{}, going, longest * 2, going + " | verdict of 0"},
		"it has ended":                 {page{ended: map[int64]bool{comment(2, "").RunID: true}}, going, 0, over},
		"not known, and young":         {page{unknown: true}, going, longest, going + " | verdict of 0"},
		"not known, and old":           {page{unknown: true}, going, longest + time.Second, over},
		"without a link":               {page{unknown: true}, Going("`abc`", "", since), longest * 2, strings.Replace(over, " ([run](u))", "", 1)},
		"a line that somebody changed": {page{unknown: true}, "text", longest * 2, strings.NewReplacer("`abc`", "another commit", " ([run](u))", "").Replace(over)},
	} {
		for act, do := range map[string]func(p *page, c Comment) (Action, error){
			"announce": func(p *page, c Comment) (Action, error) { return Announce(t.Context(), p, c, limit, settled) },
			"withdraw": func(p *page, c Comment) (Action, error) { return Withdraw(t.Context(), p, c, limit, settled) },
			"verdict": func(p *page, c Comment) (Action, error) {
				r, err := Upsert(t.Context(), p, c, settled)
				return r.Action, err
			},
		} {
			t.Run(name+"/"+act, func(t *testing.T) {
				p := tc.page
				p.entries = []Entry{{ID: 1, Text: comment(0, "verdict of 0").Text()}}
				if _, err := Announce(t.Context(), &p, comment(2, tc.line), limit, settled); err != nil {
					t.Fatal(err)
				}
				older := comment(1, "of 1")
				older.ValidAt = since.Add(tc.late)
				action, err := do(&p, older)
				if text := p.text(t); action != Outdated || err != nil || text != tc.want {
					t.Errorf("%s %v: %q, want %q", action, err, text, tc.want)
				}
				if _, err := Upsert(t.Context(), &p, comment(2, "verdict of 2"), settled); err != nil || p.text(t) != "verdict of 2" {
					t.Errorf("the verdict after it: %v: %q", err, p.text(t))
				}
			})
		}
	}
}
