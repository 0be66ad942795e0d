package reporttest

import (
	"bytes"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/test/untrustedtest"
)

// LinkPrefixes are the prefixes of a report's own links.
var LinkPrefixes = []string{"https://github.com/acme/widgets/"}

// Write returns the output of a reporter. It calls the reporter twice and fails if the outputs
// differ.
func Write(t *testing.T, r report.Reporter, in report.Input) []byte {
	t.Helper()
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := r.Write(b, in); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two calls with one input wrote different bytes")
	}
	return first.Bytes()
}

// Markdown tests a reporter that writes Markdown with the corpus of attacks, and with large jobs
// and limits down to nothing. limited returns the reporter with a limit; 0 means its default, which
// is most.
func Markdown(t *testing.T, limited func(limit int) report.Reporter, most int) {
	t.Run("attacks", func(t *testing.T) {
		for _, a := range untrustedtest.Corpus {
			in := Hostile(a)
			for _, limit := range []int{0, 20_000, 2_000} {
				checkMarkdown(t, a.Name, Write(t, limited(limit), in), limit, most)
			}
		}
	})
	t.Run("ordinary jobs", func(t *testing.T) {
		for name, in := range Inputs() {
			for step := range 30 {
				limit := 1 + step*501
				checkMarkdown(t, name, Write(t, limited(limit), in), limit, most)
			}
		}
	})
	t.Run("a large job", func(t *testing.T) {
		in := Large(4_000) // more than a megabyte, so that no limit has room for all of it
		for _, limit := range []int{0, 300_000, 20_000, 2_000, 100, 1} {
			var b bytes.Buffer
			if err := limited(limit).Write(&b, in); err != nil {
				t.Fatal(err)
			}
			checkMarkdown(t, "a large job", b.Bytes(), limit, most)
			if limit == 0 && b.Len() < most/2 {
				t.Errorf("only %d of %d bytes are used: this job is not large", b.Len(), most)
			}
		}
	})
}

func checkMarkdown(t *testing.T, what string, text []byte, limit, most int) {
	t.Helper()
	if limit == 0 {
		limit = most
	}
	if len(text) > limit {
		t.Errorf("%s: %d bytes where %d are allowed", what, len(text), limit)
	}
	if len(text) > 0 && !bytes.HasPrefix(text, []byte("## ")) {
		t.Errorf("%s, limit %d: it does not begin with the verdict: %.100q", what, limit, text)
	}
	for i, problem := range untrustedtest.Markdown(text, LinkPrefixes...) {
		if i < 3 {
			t.Errorf("%s, limit %d: %s", what, limit, problem)
		}
	}
}
