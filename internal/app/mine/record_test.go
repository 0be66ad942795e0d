package mine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/test/apptest"
)

// Commits that were left out are remembered with their reason, unless the reason is this machine's
// or needed no run. With another Dockerfile, or with --retry, they are tried again.
func TestLeftOutCommitsAreRemembered(t *testing.T) {
	h, _ := apptest.New(t)
	id := func(c string) string { return strings.Repeat(c, 40) }
	open := func(dockerfile string, retry bool) *mining {
		m := &mining{host: h, req: Request{Out: "mined", Retry: retry}, tried: map[string]bool{}}
		m.options.Dockerfile = []byte(dockerfile)
		if err := m.readRecord(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open("FROM a\n", false)
	for c, why := range map[string]mine.Reason{"1": mine.NoNewTest, "2": mine.NotKnown, "3": mine.Proven, "4": mine.TestsOnly, "5": mine.BuildFailed} {
		m.Candidates = append(m.Candidates, mine.Candidate{Commit: id(c), Reason: why, Detail: "all 3", Subject: "x"})
		m.tried[id(c)] = why != mine.TestsOnly
	}
	if err := m.writeRecord(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		commit, dockerfile string
		retry              bool
		want               mine.Reason
	}{
		{"1", "FROM a\n", false, mine.NoNewTest}, {"5", "FROM a\n", false, mine.BuildFailed},
		{"2", "FROM a\n", false, ""}, {"3", "FROM a\n", false, ""}, {"4", "FROM a\n", false, ""},
		{"5", "FROM b\n", false, ""}, {"1", "FROM a\n", true, ""},
	} {
		why, detail, known := open(tc.dockerfile, tc.retry).before(&mine.Candidate{Commit: id(tc.commit)})
		if why != tc.want || known != (tc.want != "") || known && detail != "as before (--retry tries again): all 3" {
			t.Errorf("%+v: %q %q %t", tc, why, detail, known)
		}
	}
	m = open("FROM a\n", true)
	m.Candidates = []mine.Candidate{{Commit: id("1"), Reason: mine.Proven}}
	if err := m.writeRecord(); err != nil {
		t.Fatal(err)
	}
	if _, _, known := open("FROM a\n", false).before(&m.Candidates[0]); known {
		t.Error("a proven commit is remembered as left out")
	}
}

// The record comes with the repository. Entries without a valid commit, reason or printable text
// are ignored, and a record that cannot be read is refused.
func TestHostileRecords(t *testing.T) {
	h, _ := apptest.New(t)
	m := &mining{host: h, req: Request{Out: "mined"}}
	m.options.Dockerfile = []byte("FROM a\n")
	id := strings.Repeat("1", 40)
	digest := m.digest(&mine.Candidate{})
	put := func(text string) {
		path := filepath.Join(h.Dir, "mined", RecordFile)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(id, reason, detail string) string {
		return `{"schema_version": 1, "commits": {"` + id + `": {"reason": "` + reason + `", "detail": "` + detail + `", "dockerfile": "` + digest + `"}}}`
	}
	for text, want := range map[string]string{
		entry(id, "flaky", `a\u001b[31mb\u202e`+strings.Repeat("x", 5000)): "flaky",
		entry("../../x", "flaky", ""):                                      "",
		entry(id, "proven", ""):                                            "",
		entry(id, "made up", ""):                                           "",
	} {
		put(text)
		if err := m.readRecord(); err != nil {
			t.Fatal(err)
		}
		why, detail, _ := m.before(&mine.Candidate{Commit: id})
		if string(why) != want || strings.ContainsAny(detail, "\x1b\u202e") || len(detail) > 300 {
			t.Errorf("%.100s: %q, %.300q", text, why, detail)
		}
	}
	for _, text := range []string{"{", `{"schema_version": 2}`, "[]", strings.Repeat(" ", maxRecord+1)} {
		put(text)
		apptest.Refused(t, m.readRecord(), "left-out.json")
	}
}
