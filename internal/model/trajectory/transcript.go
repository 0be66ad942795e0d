package trajectory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// Transcript reads a trajectory that Convert wrote, and calls each with its steps as Markdown: a
// section for each, with the calls of tools and their results. All texts are quoted: none can look
// like another step, or like the result of a tool. shorten is applied to each message, to the names
// and the arguments of each call and to each result. It returns the agent's last text; "" if there
// is none. It holds one step in memory at a time.
func Transcript(r io.Reader, shorten func(string) string, each func(section string)) (reply string, err error) {
	t := &transcript{d: json.NewDecoder(r), shorten: shorten, each: each}
	err = t.trajectory("", false)
	return t.reply, err
}

type transcript struct {
	d       *json.Decoder
	shorten func(string) string
	each    func(string)
	reply   string
}

var errNoTrajectory = errors.New("it is no trajectory")

// trajectory reads a trajectory. of is the prefix of its steps' numbers.
func (t *transcript) trajectory(of string, subagent bool) error {
	if err := t.delimiter('{'); err != nil {
		return err
	}
	for t.d.More() {
		key, err := t.d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "agent":
			var a Agent
			if err = t.decode(&a); err == nil && subagent {
				t.each(fmt.Sprintf("# sub-agent %s\n\n", t.name(a.Name)))
			}
		case "steps":
			err = t.list(func(int) error {
				var s Step
				err := t.decode(&s)
				if err == nil {
					t.step(of, s, subagent)
				}
				return err
			})
		case "subagent_trajectories":
			err = t.list(func(n int) error { return t.trajectory(fmt.Sprintf("%s%d.", of, n), true) })
		default:
			var other json.RawMessage
			err = t.d.Decode(&other)
		}
		if err != nil {
			return err
		}
	}
	_, err := t.d.Token()
	return err
}

// decode decodes the next value. It holds its text in memory.
func (t *transcript) decode(into any) error {
	var raw json.RawMessage
	if err := t.d.Decode(&raw); err != nil {
		return err
	}
	return bounded.Unmarshal(raw, into)
}

func (t *transcript) delimiter(want json.Delim) error {
	got, err := t.d.Token()
	if err == nil && got != want {
		err = errNoTrajectory
	}
	return err
}

// list reads a list, or null. each is called at each of its elements, which have numbers from 1.
func (t *transcript) list(each func(n int) error) error {
	switch first, err := t.d.Token(); {
	case err != nil:
		return err
	case first == nil:
		return nil
	case first != json.Delim('['):
		return errNoTrajectory
	}
	for n := 1; t.d.More(); n++ {
		if err := each(n); err != nil {
			return err
		}
	}
	_, err := t.d.Token()
	return err
}

func (t *transcript) step(of string, s Step, subagent bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "## step %s%d: %s\n\n", of, s.ID, t.name(s.Source))
	text := strings.TrimSpace(s.Message)
	if text != "" {
		b.WriteString(t.quote(text))
		if s.Source == fromAgent && !subagent {
			t.reply = s.Message
		}
	}
	for _, c := range s.Calls {
		fmt.Fprintf(&b, "call of the tool %s:\n%s", t.name(c.Name), t.quote(arguments(c.Arguments)))
	}
	if s.Observation != nil {
		for _, r := range s.Observation.Results {
			fmt.Fprintf(&b, "result:\n%s", t.quote(strings.TrimRight(r.Content, "\n")))
		}
	}
	t.each(b.String())
}

// arguments returns the arguments of a call on one line, with no more escapes than JSON needs: the
// file has < and > as \u003c and \u003e.
func arguments(raw json.RawMessage) string {
	v := jsontext.Value(slices.Clone(raw))
	if err := v.Format(); err != nil {
		return string(raw)
	}
	return string(v)
}

// name returns a name on one line.
func (t *transcript) name(text string) string {
	return strings.Join(strings.Fields(t.shorten(text)), " ")
}

func (t *transcript) quote(text string) string { return Quote(t.shorten(text)) + "\n" }

// breaks replaces all characters that some readers take for a line break.
var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Quote returns text with "> " before each line, and a line break at its end.
func Quote(text string) string {
	return "> " + strings.ReplaceAll(breaks.Replace(text), "\n", "\n> ") + "\n"
}
