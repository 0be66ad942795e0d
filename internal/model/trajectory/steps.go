package trajectory

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/model"
)

// planned is a step without its texts.
type planned struct {
	kind    kind
	message *message            // nil: it has none
	turn    *model.RecordedTurn // the one that sent the message, or that answered
	calls   []string            // the identifiers of its calls of tools
	results []plannedResult
	// Of a replaced context: the last answer before, and the messages that came in the place of
	// others.
	before *message
	after  []*message
}

// kind classifies a step of the trajectory.
type kind int

const (
	sent        kind = iota // a message that the agent sent
	answered                // an answer of the model
	compaction              // of the context, after which a new conversation begins
	replacement             // of a part of the context: a compaction or a pruning
	injection               // into the first messages, after which a new conversation seems to begin
	orphan                  // results of a call that is not recorded
	begun                   // a step of the task begins
)

// plannedResult is the result of a call of a tool.
type plannedResult struct {
	message   *message
	part      int
	call      string   // the identifier of the call; "" if it is not known
	subagents []string // their trajectories
}

// steps collects the steps of a trajectory.
type steps struct {
	x      *index
	list   []*planned
	stepOf map[string]int             // the index of the step that made a call of a tool
	done   map[int]bool               // messages that have their step
	seen   map[[sha256.Size]byte]bool // contents of messages from the model or tools
	last   int                        // the number of the latest answer
	before *model.RecordedTurn        // the turn with the latest answer
}

// steps returns the steps of a conversation and of those that continue it.
func (x *index) steps(t *talk) []*planned {
	s := &steps{x: x, stepOf: map[string]int{}, done: map[int]bool{}, seen: map[[sha256.Size]byte]bool{}}
	for ; t != nil; t = t.next {
		if t.first {
			s.begin(t)
		}
		for i, turn := range t.turns {
			s.turn(turn, i == 0 && t.follows && !t.first)
		}
	}
	return s.list
}

// begin marks the beginning of a step of the task, in which the agent begins anew.
func (s *steps) begin(t *talk) {
	s.add(&planned{kind: begun, turn: t.turns[0]})
	s.done, s.seen = map[int]bool{}, map[[sha256.Size]byte]bool{}
	s.last, s.before = 0, nil
}

func (s *steps) add(step *planned) *planned {
	s.list = append(s.list, step)
	return step
}

// turn adds the new messages of a turn, and its answer.
func (s *steps) turn(t *model.RecordedTurn, compacted bool) {
	path := s.x.path(t)
	var became *planned // nil: nothing was replaced
	replaced := s.last != 0 && !slices.ContainsFunc(path, func(m *message) bool { return m.id == s.last })
	last := s.x.messages[s.last]
	switch {
	case compacted && s.keeps(path):
		s.add(&planned{kind: injection})
	case compacted:
		s.add(&planned{kind: compaction})
	case replaced:
		became = s.add(&planned{kind: replacement, before: last})
	}
	for _, m := range path {
		if s.done[m.id] {
			continue
		}
		s.done[m.id] = true
		if m.own() && s.seen[m.content] && (compacted || replaced) { // a copy, after other messages than before
			continue
		}
		s.seen[m.content] = s.seen[m.content] || m.own()
		if became != nil && !m.own() {
			became.after = append(became.after, m)
		}
		if m.tool {
			for i, id := range m.results {
				s.result(m, i, id)
			}
			continue
		}
		step := s.add(&planned{message: m, turn: t})
		if m.role == "assistant" { // not an answer of the model: the agent wrote it, or changed an answer
			s.calls(step)
		}
	}
	if t.Answer == 0 {
		return
	}
	s.last, s.before = t.Answer, t
	s.done[t.Answer] = true
	answer := s.x.messages[t.Answer]
	if answer != nil {
		s.seen[answer.content] = true
	}
	s.calls(s.add(&planned{kind: answered, message: answer, turn: t}))
}

// keeps reports whether path contains the latest answer and all messages of the model and tools
// before it.
func (s *steps) keeps(path []*message) bool {
	if s.before == nil {
		return false
	}
	has := map[[sha256.Size]byte]bool{}
	for _, m := range path {
		has[m.content] = true
	}
	for _, m := range append(s.x.path(s.before), s.x.messages[s.last]) {
		if m != nil && m.own() && !has[m.content] {
			return false
		}
	}
	return true
}

// calls adds the calls of tools to the last step.
func (s *steps) calls(step *planned) {
	if step.message == nil {
		return
	}
	n := len(s.list)
	for _, p := range step.message.calls {
		id := p.id
		if _, taken := s.stepOf[id]; id == "" || taken { // calls of some protocols have no id
			id = fmt.Sprintf("%s-%d-%d", cmp.Or(p.id, p.name), n, p.n) // a result finds it by its beginning
		}
		step.calls = append(step.calls, id)
		s.stepOf[p.id] = n - 1
		s.stepOf[id] = n - 1
	}
}

// result adds the result of a call to the step that made the call. A result without a known call
// becomes a step of the system.
func (s *steps) result(m *message, part int, id string) {
	r := plannedResult{message: m, part: part}
	i, ok := s.stepOf[id]
	if !ok {
		s.add(&planned{kind: orphan, results: []plannedResult{r}})
		return
	}
	step := s.list[i]
	// Calls of the same name without ids: the first that has no result.
	for _, call := range step.calls {
		if call != id && !strings.HasPrefix(call, id+"-") {
			continue
		}
		if !slices.ContainsFunc(step.results, func(r plannedResult) bool { return r.call == call }) {
			r.call = call
			break
		}
	}
	step.results = append(step.results, r)
}

// refer names the trajectories of sub-agents in the steps that called them: those whose calls have
// the sub-agents' first messages in their arguments.
func (x *index) refer(list []*planned, subagents []*talk, id func(n int) string) error {
	found := map[*talk]*plannedResult{}
	err := x.firsts(subagents, func(firsts []firstText) error {
		for _, step := range list {
			if len(step.calls) == 0 || len(step.results) == 0 {
				continue
			}
			m, err := x.load(step.message)
			if err != nil {
				return err
			}
			for i, p := range step.message.calls {
				r := slices.IndexFunc(step.results, func(r plannedResult) bool { return r.call == step.calls[i] })
				if r < 0 {
					continue
				}
				texts := delegatedTexts(object(m.Parts[p.n].Arguments))
				for _, first := range firsts {
					if x.visits++; found[first.talk] == nil && first.contains(texts) {
						found[first.talk] = &step.results[r]
					}
				}
			}
		}
		return x.visited()
	})
	for i, t := range subagents {
		if r := found[t]; r != nil {
			r.subagents = append(r.subagents, id(i))
		}
	}
	return err
}

// step returns the step with the number n.
func (x *index) step(n int, p *planned) (Step, error) {
	out := Step{ID: n}
	m, err := x.load(p.message)
	if err != nil {
		return out, err
	}
	switch p.kind {
	case compaction, replacement, injection:
		kind := "compaction"
		switch p.kind {
		case injection:
			kind = "injection"
		case replacement:
			if summed, err := x.summed(p); err != nil {
				return out, err
			} else if !summed {
				kind = "pruning"
			}
		}
		out.Source, out.Message = fromSystem, "The context was replaced."
		out.Extra = map[string]any{"context_management": map[string]any{"type": kind, "boundary": "replace"}}
	case begun:
		out.Time, out.Source, out.Message = &p.turn.Began, fromSystem, "The step "+p.turn.Step+" begins."
		out.Extra = map[string]any{TaskStep: p.turn.Step}
	case orphan:
		out.Source, out.Message = fromSystem, "The result of a call that is not recorded."
	case answered:
		x.answer(&out, m, p.turn)
	case sent:
		out.Time, out.Source, out.Message = &p.turn.Began, fromUser, textOf(m)
		switch m.Role {
		case "assistant":
			out.Source, out.LLMCalls = fromAgent, new(int)
		case "system":
			out.Source = fromSystem
		}
	}
	for i, id := range p.calls {
		part := m.Parts[p.message.calls[i].n]
		out.Calls = append(out.Calls, ToolCall{ID: id, Name: part.Name, Arguments: object(part.Arguments)})
	}
	if len(p.results) == 0 {
		return out, nil
	}
	out.Observation = &Observation{}
	for _, planned := range p.results {
		m, err := x.load(planned.message)
		if err != nil {
			return out, err
		}
		r := Result{Call: planned.call, Content: m.Parts[planned.part].Text}
		for _, id := range planned.subagents {
			r.Subagents = append(r.Subagents, SubagentRef{ID: id})
		}
		if m.Parts[planned.part].Failed {
			r.Extra = map[string]any{"is_error": true}
		}
		out.Observation.Results = append(out.Observation.Results, r)
	}
	return out, nil
}

// summed reports whether the last answer was the summary of the replaced messages: one of the
// messages in their place quotes it. Agents that keep the user's messages compact their context
// this way.
func (x *index) summed(p *planned) (bool, error) {
	if p.before == nil {
		return false, nil
	}
	m, err := x.load(p.before)
	if err != nil {
		return false, err
	}
	summary := strings.TrimSpace(textOf(m))
	if len(summary) < minTask {
		return false, nil
	}
	for _, message := range p.after {
		if m, err = x.load(message); err != nil || strings.Contains(textOf(m), summary) {
			return err == nil, err
		}
	}
	return false, nil
}

// TaskStep is the key in Step.Extra of the name of a step of the task, which begins there.
const TaskStep = "task_step"

// Latency is the key in Metrics.Extra of the model's response time in seconds.
const Latency = "latency_sec"

// answer fills in the step of an answer.
func (x *index) answer(step *Step, m model.Message, t *model.RecordedTurn) {
	step.Time, step.Source, step.Message, step.Model, step.Reasoning = &t.Ended, fromAgent, textOf(m), t.Answered, reasoningOf(m)
	u := t.Usage
	metrics := Metrics{Prompt: u.Input, Completion: u.Output, Cached: u.Cached, Cost: t.Cost, Extra: map[string]any{}}
	if u.CacheWrite != nil {
		metrics.Extra["cache_creation_input_tokens"] = *u.CacheWrite
	}
	if u.Reasoning != nil {
		metrics.Extra["reasoning_tokens"] = *u.Reasoning
	}
	if t.Ended.After(t.Began) {
		metrics.Extra[Latency] = t.Ended.Sub(t.Began).Round(time.Millisecond).Seconds()
	}
	if t.AtLeast {
		metrics.Extra[lowerBound] = true
	}
	if n := x.tokens[t.Turn]; n != nil {
		metrics.PromptIDs, metrics.CompletionIDs, metrics.Logprobs = n.Prompt, n.Completion, n.Logprobs
	}
	if u.Known() || t.Cost != nil || metrics.PromptIDs != nil {
		step.Metrics = &metrics
	}
	if t.Finish != "" || t.Failure != nil {
		step.Extra = map[string]any{}
		if t.Finish != "" {
			step.Extra["finish_reason"] = t.Finish
		}
		if t.Failure != nil {
			step.Extra["failure"] = t.Failure
		}
	}
}

// object returns arguments as an object: others are wrapped.
func object(arguments json.RawMessage) json.RawMessage {
	if trimmed := strings.TrimSpace(string(arguments)); strings.HasPrefix(trimmed, "{") {
		return arguments
	}
	if len(arguments) == 0 {
		return json.RawMessage("{}")
	}
	return json.RawMessage(`{"value":` + string(arguments) + `}`)
}

func textOf(m model.Message) string {
	var texts []string
	for _, p := range m.Parts {
		switch p.Type {
		case model.PartText, model.PartResult:
			texts = append(texts, p.Text)
		case model.PartMedia:
			texts = append(texts, "["+p.Media+"]")
		case model.PartReasoning, model.PartCall:
		}
	}
	return strings.Join(texts, "\n")
}

func reasoningOf(m model.Message) string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == model.PartReasoning && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
