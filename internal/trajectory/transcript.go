package trajectory

import (
	"fmt"
	"strings"
)

// Transcript returns the steps of the trajectory as Markdown for a reader: a section for each, with the calls of tools and what they
// returned. shorten is applied to each message, to the arguments of each call and to each result.
func (t *Trajectory) Transcript(shorten func(string) string) string {
	var b strings.Builder
	t.transcript(&b, "", shorten)
	return b.String()
}

func (t *Trajectory) transcript(b *strings.Builder, of string, shorten func(string) string) {
	for _, s := range t.Steps {
		fmt.Fprintf(b, "## step %s%d: %s\n\n", of, s.ID, s.Source)
		if text := strings.TrimSpace(s.Message); text != "" {
			fmt.Fprintf(b, "%s\n\n", shorten(text))
		}
		for _, c := range s.Calls {
			fmt.Fprintf(b, "[call of the tool %s: %s]\n\n", c.Name, shorten(string(c.Arguments)))
		}
		if s.Observation == nil {
			continue
		}
		for _, r := range s.Observation.Results {
			fmt.Fprintf(b, "[result]\n%s\n\n", shorten(strings.TrimRight(r.Content, "\n")))
		}
	}
	for i := range t.Subagents {
		sub := &t.Subagents[i]
		fmt.Fprintf(b, "# sub-agent %s\n\n", sub.Agent.Name)
		sub.transcript(b, fmt.Sprintf("%s%d.", of, i+1), shorten)
	}
}

// Reply returns the last thing that the agent said; "" if it said nothing.
func (t *Trajectory) Reply() string {
	for i := len(t.Steps) - 1; i >= 0; i-- {
		if s := t.Steps[i]; s.Source == "agent" && strings.TrimSpace(s.Message) != "" {
			return s.Message
		}
	}
	return ""
}
