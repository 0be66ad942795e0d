package markdown

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/prove"
)

// DefaultProofLimit bounds the report of proven tasks, in bytes. It is below the limit of a step's
// summary.
const DefaultProofLimit = 900_000

// maxLine bounds a line of text from outside, in bytes.
const maxLine = 1000

// Proof writes the report of rollout validate --run: a table of all tasks with their findings. What
// does not fit within limit bytes is counted; 0 is DefaultProofLimit.
func Proof(w io.Writer, in prove.Report, limit int) error {
	_, err := io.WriteString(w, proofPage(in, cmp.Or(limit, DefaultProofLimit)))
	return err
}

var outcomeMarks = map[prove.Outcome]string{prove.Passed: "✅", prove.Failed: "❌", prove.Incomplete: "⚠️", prove.Stopped: "⚠️"}

func proofPage(in prove.Report, limit int) string {
	var b strings.Builder
	left := 0
	// Space is reserved for the sentence that counts the omitted parts.
	add := func(text string) {
		if b.Len()+len(text) > limit-200 {
			left++
			return
		}
		b.WriteString(text)
	}
	b.WriteString("## " + outcomeMarks[in.Outcome()] + " Tasks: " + in.Headline() + "\n\n")
	if in.Outcome() == prove.Stopped {
		b.WriteString("The command was cancelled, so runs are missing.\n\n")
	}
	if len(in.Tasks) > 0 {
		b.WriteString("| task | verdict | oracle | nop | findings |\n|---|---|---|---|---|\n")
	}
	for _, p := range in.Tasks {
		add(proofRow(p))
	}
	for _, p := range in.Tasks {
		var list strings.Builder
		for _, f := range p.Findings {
			list.WriteString(findingItem(p, f))
		}
		if list.Len() > 0 {
			add("\nTask " + short(p.Task) + ":\n\n" + list.String())
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%d parts of this report did not fit.\n", left)
	}
	for _, note := range in.Notes {
		add("\n" + short(note) + "\n")
	}
	return b.String()
}

func proofRow(p prove.TaskReport) string {
	mark := "❌"
	switch {
	case p.Passed():
		mark = "✅"
	case p.Verdict.NothingKnown():
		mark = "⚠️"
	}
	counts := 0
	for _, f := range p.Findings {
		if f.Ignored == "" {
			counts++
		}
	}
	return fmt.Sprintf("| %s | %s %s | %s | %s | %d |\n", short(p.Task), mark, p.Verdict.Words(),
		p.Runs.OracleString(), p.Runs.NopString(), counts)
}

func findingItem(p prove.TaskReport, f prove.Finding) string {
	text := "- " + string(f.Severity) + " `" + f.Rule + "` " + untrusted.Code(untrusted.Cut(p.PlaceInRepository(f), maxLine)) + ": " + short(f.Message)
	switch {
	case f.Ignored != "":
		text += " (ignored: " + short(f.Ignored) + ")"
	case f.Hint != "":
		text += " (" + short(f.Hint) + ")"
	}
	return text + "\n"
}

// short returns text from outside, made safe and cut.
func short(text string) string { return untrusted.Markdown(untrusted.Cut(text, maxLine)) }
