package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/model"
)

// nearest describes how a request differs from the most similar recorded one.
func (r *Replay) nearest(asked content, name model.API) string {
	var best *exchange
	most := -1
	for _, digest := range slices.Sorted(maps.Keys(r.by)) {
		for _, x := range r.by[digest] {
			if n := alike(asked, x.Asked); n > most {
				best, most = x, n
			}
		}
	}
	if best == nil {
		return ErrEmpty.Error()
	}
	what := difference(best.Asked, asked)
	if what == "" {
		what = "the same conversation was recorded in another form: "
		if best.API != name {
			what += fmt.Sprintf("by the API %s, and not %s", best.API, name)
		} else {
			what += "with a stream, or without one"
		}
	}
	return fmt.Sprintf("nearest is %s/%s-%d.json: %s", best.trial, best.Asked.digest(), best.n, what)
}

// alike returns the size of the common beginning of two requests.
func alike(a, b content) int {
	n := 0
	for i := range min(len(a.Messages), len(b.Messages)) {
		if !same(a.Messages[i], b.Messages[i]) {
			break
		}
		n += 4
	}
	if len(a.Messages) == len(b.Messages) {
		n += 2
	}
	if toolsDiffer(a, b) == "" {
		n++
	}
	return n
}

func same(a, b model.Message) bool { return shown(a) == shown(b) }

// difference describes the first difference of two requests; "" if there is none.
func difference(was, is content) string {
	if was.Model != is.Model {
		return fmt.Sprintf("the model was %q, is %q", was.Model, is.Model)
	}
	if !maps.Equal(was.Sampling, is.Sampling) {
		return fmt.Sprintf("the sampling was %v, is %v", was.Sampling, is.Sampling)
	}
	if text := toolsDiffer(was, is); text != "" {
		return text
	}
	for i := range max(len(was.Messages), len(is.Messages)) {
		switch {
		case i >= len(was.Messages):
			return fmt.Sprintf("message %d (%s) was not there:\n%s", i+1, is.Messages[i].Role, lines("+ ", firstLines(shown(is.Messages[i]))))
		case i >= len(is.Messages):
			return fmt.Sprintf("message %d (%s) is not there any more:\n%s", i+1, was.Messages[i].Role, lines("- ", firstLines(shown(was.Messages[i]))))
		case !same(was.Messages[i], is.Messages[i]):
			return fmt.Sprintf("message %d (%s) differs:\n%s", i+1, is.Messages[i].Role, diff(shown(was.Messages[i]), shown(is.Messages[i])))
		}
	}
	return ""
}

// toolsDiffer describes how the tools of two requests differ; "" if they do not.
func toolsDiffer(was, is content) string {
	text := func(c content) map[string]string {
		out := map[string]string{}
		for _, t := range c.Tools {
			out[t.Name] = t.Description + "\n" + string(t.Parameters)
		}
		return out
	}
	before, now := text(was), text(is)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := before[name]; !ok {
			all = append(all, name+" is new")
		} else if before[name] != now[name] {
			all = append(all, name+" changed:\n"+diff(before[name], now[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := now[name]; !ok {
			all = append(all, name+" is gone")
		}
	}
	if len(all) == 0 {
		return ""
	}
	if len(all) > 5 {
		all = append(all[:5], fmt.Sprintf("and %d more", len(all)-5))
	}
	return "the tools differ: " + strings.Join(all, ", ")
}

// shown returns a message as text.
func shown(m model.Message) string {
	parts := []string{m.Role}
	for _, p := range m.Parts {
		switch p.Type {
		case model.PartCall:
			parts = append(parts, fmt.Sprintf("calls %s (%s): %s", p.Name, p.ID, p.Arguments))
		case model.PartResult:
			failed := ""
			if p.Failed {
				failed = ", failed"
			}
			parts = append(parts, fmt.Sprintf("result of %s%s:", p.ID, failed), p.Text)
		case model.PartMedia:
			parts = append(parts, "media: "+p.Media)
		case model.PartText, model.PartReasoning:
			parts = append(parts, p.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// Limits of a shown difference.
const (
	maxLines = 3
	maxWidth = 160
)

// diff shows the first lines in which two texts differ.
func diff(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	from := 0
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	a, b = a[from:], b[from:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	// Of long lines, show the text around the first difference.
	at := 0
	if len(a) > 0 && len(b) > 0 {
		x, y := []rune(a[0]), []rune(b[0])
		for at < len(x) && at < len(y) && x[at] == y[at] {
			at++
		}
	}
	return strings.TrimSuffix(lines("- ", cut(a, at))+"\n"+lines("+ ", cut(b, at)), "\n")
}

// cut returns the first lines, cut to maxWidth: the first line around the character at, the others
// from their beginnings.
func cut(list []string, at int) []string {
	out := slices.Clone(list[:min(len(list), maxLines)])
	for i, line := range out {
		runes := []rune(line)
		from := 0
		if i == 0 && at > maxWidth/2 {
			from = min(at-maxWidth/2, len(runes))
		}
		to := min(len(runes), from+maxWidth)
		out[i] = string(runes[from:to])
		if from > 0 {
			out[i] = "…" + out[i]
		}
		if to < len(runes) {
			out[i] += "…"
		}
	}
	if more := len(list) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("… and %d more lines", more))
	}
	return out
}

func firstLines(text string) []string { return cut(strings.Split(text, "\n"), 0) }

func lines(prefix string, list []string) string {
	out := make([]string, len(list))
	for i, line := range list {
		out[i] = prefix + line
	}
	return strings.Join(out, "\n")
}
