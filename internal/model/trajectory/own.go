package trajectory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Own holds the model usage that an agent reports itself, in a trajectory in the format ATIF. It is
// not measured. Counts and the cost are nil if the agent does not report them.
type Own struct {
	Model                     string // hostile
	Turns                     int64  // steps of the agent
	Input, Cached, Completion *int64 // tokens; the input includes tokens read from a cache
	CostUSD                   *float64
}

// MaxOwn bounds a trajectory that an agent leaves, in bytes.
const MaxOwn = 64 << 20

// Limits of reported numbers, so that sums do not overflow.
const (
	maxOwnTokens = 1e15
	maxOwnCost   = 1e6
)

// ReadOwn reads a trajectory that an agent has left, in any version of the format since ATIF-v1.0.
// It holds one step at a time. The trajectory is hostile: errors describe its defects. ErrTooLong
// is one of them.
// Source: https://harborframework.com/docs/agents/trajectory-format.
func ReadOwn(r io.Reader) (Own, error) {
	limited := &io.LimitedReader{R: r, N: MaxOwn + 1}
	o := ownReader{d: json.NewDecoder(limited), seen: map[string]bool{}}
	err := o.read()
	if limited.N <= 0 {
		return Own{}, ErrTooLong
	}
	if err != nil {
		return Own{}, err
	}
	return o.total()
}

// ownReader reads the members of a trajectory that report usage.
type ownReader struct {
	d     *json.Decoder
	seen  map[string]bool
	agent struct {
		Model string `json:"model_name"`
	}
	version string
	model   string // of the first step that names one
	turns   int64
	sum     ownSum
	final   *struct {
		Prompt     *count  `json:"total_prompt_tokens"`
		Completion *count  `json:"total_completion_tokens"`
		Cached     *count  `json:"total_cached_tokens"`
		Cost       *amount `json:"total_cost_usd"`
	}
}

// ownStep holds the members of a step that report usage.
type ownStep struct {
	Source  string `json:"source"`
	Model   string `json:"model_name"`
	Copied  bool   `json:"is_copied_context"`
	Metrics *struct {
		Prompt     *count  `json:"prompt_tokens"`
		Completion *count  `json:"completion_tokens"`
		Cached     *count  `json:"cached_tokens"`
		Cost       *amount `json:"cost_usd"`
	} `json:"metrics"`
}

func (o *ownReader) read() error {
	if err := o.delimiter('{', "it is no JSON object"); err != nil {
		return err
	}
	for o.d.More() {
		key, err := o.d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		var into any
		switch name {
		case "schema_version":
			into = &o.version
		case "agent":
			into = &o.agent
		case "final_metrics":
			into = &o.final
		case "steps":
		default:
			into = new(skipped)
		}
		if _, skip := into.(*skipped); !skip && o.seen[name] {
			return fmt.Errorf("it has %s twice", name)
		}
		o.seen[name] = true
		if name == "steps" {
			err = o.steps()
		} else {
			err = o.d.Decode(into)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, err := o.d.Token(); err != nil {
		return err
	}
	if _, err := o.d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after its end")
	}
	return nil
}

func (o *ownReader) delimiter(want json.Delim, otherwise string) error {
	t, err := o.d.Token()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if err == nil && t != want {
		err = errors.New(otherwise)
	}
	return err
}

func (o *ownReader) steps() error {
	if err := o.delimiter('[', "they are no list"); err != nil {
		return err
	}
	for n := 1; o.d.More(); n++ {
		var s ownStep
		if err := o.d.Decode(&s); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
		if s.Source != "agent" || s.Copied {
			continue
		}
		o.turns++
		if o.model == "" {
			o.model = s.Model
		}
		if m := s.Metrics; m != nil {
			o.sum.prompt.add(m.Prompt)
			o.sum.completion.add(m.Completion)
			o.sum.cached.add(m.Cached)
			if m.Cost != nil {
				o.sum.cost, o.sum.priced = o.sum.cost+float64(*m.Cost), true
			}
		}
	}
	_, err := o.d.Token()
	return err
}

// total returns the usage of the whole trajectory: the final metrics, or else the sum over the
// steps.
func (o *ownReader) total() (Own, error) {
	switch {
	case !strings.HasPrefix(o.version, "ATIF-v1."):
		return Own{}, fmt.Errorf("its schema_version is %.40q, not ATIF-v1.0 or a later one", o.version)
	case !o.seen["steps"]:
		return Own{}, errors.New("it has no steps")
	}
	own := Own{Model: o.agent.Model, Turns: o.turns, Input: o.sum.prompt.known(), Completion: o.sum.completion.known(), Cached: o.sum.cached.known()}
	if own.Model == "" {
		own.Model = o.model
	}
	if o.sum.priced {
		own.CostUSD = &o.sum.cost
	}
	if f := o.final; f != nil {
		for _, one := range []struct {
			to    **int64
			count *count
		}{{&own.Input, f.Prompt}, {&own.Completion, f.Completion}, {&own.Cached, f.Cached}} {
			if one.count != nil {
				*one.to = new(int64(*one.count))
			}
		}
		if f.Cost != nil {
			own.CostUSD = new(float64(*f.Cost))
		}
	}
	if own.CostUSD != nil && *own.CostUSD > maxOwnCost {
		return Own{}, fmt.Errorf("it costs more than %g US dollars", float64(maxOwnCost))
	}
	return own, nil
}

// ownSum adds up the metrics of steps.
type ownSum struct {
	prompt, completion, cached tally
	cost                       float64
	priced                     bool
}

type tally struct {
	sum   int64
	count int
}

func (t *tally) add(n *count) {
	if n != nil {
		t.sum = min(t.sum+int64(*n), maxOwnTokens)
		t.count++
	}
}

func (t *tally) known() *int64 {
	if t.count == 0 {
		return nil
	}
	return &t.sum
}

// count is a number of tokens.
type count int64

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(text []byte) error {
	n, err := number(text)
	if err == nil && (n < 0 || n > maxOwnTokens || n != math.Trunc(n)) {
		err = fmt.Errorf("%.40q is no number of tokens", text)
	}
	*c = count(n)
	return err
}

// amount is a number of US dollars.
type amount float64

// UnmarshalJSON implements json.Unmarshaler.
func (a *amount) UnmarshalJSON(text []byte) error {
	n, err := number(text)
	if err == nil && (n < 0 || n > maxOwnCost) {
		err = fmt.Errorf("%.40q is no plausible amount of money", text)
	}
	*a = amount(n)
	return err
}

func number(text []byte) (float64, error) {
	var n float64
	if err := json.Unmarshal(text, &n); err != nil {
		return 0, fmt.Errorf("%.40q is not a number", text)
	}
	return n, nil
}

// skipped accepts any value and discards it.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }
