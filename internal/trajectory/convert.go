package trajectory

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/model"
)

// About is what the recorded calls do not say themselves.
type About struct {
	ID           string // of the trajectory and its session
	Agent        string
	AgentVersion string // "" if it is not known
}

// ErrEmpty is returned if no call had a conversation.
var ErrEmpty = errors.New("there is no recorded conversation")

// maxLine bounds one line of a record.
const maxLine = 512 << 20

// Convert reads the lines of a model.Recorder. A last line that was cut off is left out.
//
// The conversation with the most turns is the agent's own. One that follows it with the same tools and the same agent is its continuation
// after a compaction. All others are those of sub-agents, or of calls beside the work, such as for a title.
func Convert(r io.Reader, about About) (*Trajectory, error) {
	c, err := read(r, 0)
	if err != nil {
		return nil, err
	}
	out, err := c.convert(about)
	if err == nil && c.visits > maxVisits {
		return nil, ErrTooLong
	}
	return out, err
}

// read reads a record. limit, if not 0, bounds its lines without the ids of tokens, and what the ids need in memory, in bytes.
func read(r io.Reader, limit int64) (*converter, error) {
	c := &converter{messages: map[int]model.RecordedMessage{}, tools: map[int][]model.Tool{}, tokens: map[int]*model.Tokens{}, maxIDs: maxIDs}
	if limit > 0 {
		c.maxIDs = int(min(maxIDs, limit/4))
	}
	var size int64
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var turn model.RecordedTurn
		if err := json.Unmarshal(lines.Bytes(), &turn); err != nil {
			c.broken++
			continue
		}
		if size += int64(len(lines.Bytes())) - tokensSize(lines.Bytes(), turn); limit > 0 && size > limit {
			return nil, ErrTooLong
		}
		c.add(turn)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the recorded calls: %w", err)
	}
	return c, nil
}

// tokensSize returns how many bytes of a line are ids of tokens and log probabilities.
func tokensSize(line []byte, t model.RecordedTurn) int64 {
	if t.Tokens == nil {
		return 0
	}
	return int64(len(line) - len(model.WithoutTokens(line)))
}

type converter struct {
	messages map[int]model.RecordedMessage
	tools    map[int][]model.Tool
	talks    []*talk
	order    []ordered // turns with their conversations, as they were recorded
	visits   int       // of messages, to find those of turns
	broken   int
	empty    int // turns without messages

	tokens map[int]*model.Tokens // by the numbers of turns
	reader model.TokensReader
	ids    int // of all turns up to the first that is too much
	maxIDs int
	unkept int // turns whose tokens are left out: there are too many, or the record has a gap
}

// maxIDs bounds the ids of tokens of a record: each turn repeats those of its whole conversation.
const maxIDs = 4 << 20

// keepTokens keeps the tokens of a turn.
func (c *converter) keepTokens(t *model.RecordedTurn) {
	if t.Tokens == nil {
		return
	}
	var whole *model.Tokens
	if c.ids <= c.maxIDs {
		if whole = c.reader.Read(*t); whole != nil {
			c.ids += len(whole.Prompt) + len(whole.Completion)
		}
	}
	if t.Tokens = nil; whole == nil || c.ids > c.maxIDs {
		c.unkept++
		return
	}
	c.tokens[t.Turn] = whole
}

type ordered struct {
	turn model.RecordedTurn
	talk *talk
}

// talk is one conversation: turns whose messages begin alike.
type talk struct {
	begin   int // the first message that is not the system's
	agent   string
	toolSet int
	turns   []model.RecordedTurn
	next    *talk // its continuation after a compaction
	follows bool  // it is one
}

func (c *converter) add(t model.RecordedTurn) {
	for _, m := range t.Messages {
		c.messages[m.ID] = m
	}
	c.keepTokens(&t)
	if len(t.Tools) > 0 {
		c.tools[t.ToolSet] = t.Tools
	}
	if t.Last == 0 && t.Answer == 0 {
		c.empty++
		return
	}
	begin := c.beginning(t)
	for _, one := range c.talks {
		if one.begin == begin {
			one.turns = append(one.turns, t)
			one.toolSet = max(one.toolSet, t.ToolSet)
			c.order = append(c.order, ordered{t, one})
			return
		}
	}
	one := &talk{begin: begin, agent: t.Agent, toolSet: t.ToolSet, turns: []model.RecordedTurn{t}}
	c.talks = append(c.talks, one)
	c.order = append(c.order, ordered{t, one})
}

// beginning returns the number of the first message of a turn that is not the system's, or of its last.
func (c *converter) beginning(t model.RecordedTurn) int {
	path := c.path(t)
	for _, m := range path {
		if m.Role != "system" {
			return m.ID
		}
	}
	if len(path) == 0 {
		return 0
	}
	return path[len(path)-1].ID
}

// path returns the messages that a turn's answer follows, from the first.
func (c *converter) path(t model.RecordedTurn) []model.RecordedMessage {
	var path []model.RecordedMessage
	for id := t.Last; id != 0 && len(path) <= len(c.messages) && c.visits <= maxVisits; c.visits++ {
		m, ok := c.messages[id]
		if !ok {
			break
		}
		path = append(path, m)
		id = m.Parent
	}
	slices.Reverse(path)
	return path
}

func (c *converter) convert(about About) (*Trajectory, error) {
	c.link()
	main := c.main()
	if main == nil {
		return nil, ErrEmpty
	}
	out := c.trajectory(main, about.ID, about)
	n := 0
	for _, t := range c.talks {
		if t == main || t.follows {
			continue
		}
		n++
		id := fmt.Sprintf("%s#%d", about.ID, n)
		out.Subagents = append(out.Subagents, *c.trajectory(t, id, about))
		c.refer(out, t, id)
	}
	out.Final = c.sums(out)
	var notes []string
	if c.empty > 0 {
		notes = append(notes, fmt.Sprintf("%d calls were recorded without messages", c.empty))
	}
	if c.broken > 0 {
		notes = append(notes, fmt.Sprintf("%d lines of the record cannot be read", c.broken))
	}
	if c.unkept > 0 {
		notes = append(notes, fmt.Sprintf("the ids of tokens of %d calls are left out: there are more than %d altogether, or the record has a gap", c.unkept, c.maxIDs))
	}
	out.Notes = strings.Join(notes, "; ")
	return out, nil
}

// main returns the agent's own conversation: of those that no other delegated, of those that offer tools, the one with the most turns; of
// these, the first. It is where a chain of continuations begins.
func (c *converter) main() *talk {
	delegated := c.delegated()
	better := func(a, b *talk) bool {
		switch {
		case delegated[a] != delegated[b]:
			return delegated[b]
		case (a.toolSet > 0) != (b.toolSet > 0):
			return a.toolSet > 0
		}
		return len(a.turns) > len(b.turns)
	}
	var best *talk
	for _, t := range c.talks {
		if best == nil || better(t, best) {
			best = t
		}
	}
	for i := len(c.talks) - 1; i >= 0; i-- { // a continuation comes after what it continues
		if best != nil && c.talks[i].next == best {
			best = c.talks[i]
		}
	}
	return best
}

// maxDelegations bounds the conversations and the calls that delegated looks at, each: their number is the agent's choice.
const maxDelegations = 1000

// delegated returns the conversations whose first message is an argument of a call in another one: those of sub-agents.
func (c *converter) delegated() map[*talk]bool {
	type call struct {
		talk  *talk
		texts []string
	}
	var calls []call
	for _, one := range c.order {
		answer, ok := c.messages[one.turn.Answer]
		if !ok {
			continue
		}
		for _, part := range answer.Parts {
			if texts := delegatedTexts(part.Arguments); len(texts) > 0 && len(calls) < maxDelegations {
				calls = append(calls, call{one.talk, texts})
			}
		}
	}
	out := map[*talk]bool{}
	for _, t := range c.talks[:min(len(c.talks), maxDelegations)] {
		first := strings.TrimSpace(textOf(c.messages[t.begin].Message))
		out[t] = slices.ContainsFunc(calls, func(one call) bool {
			return one.talk != t && slices.ContainsFunc(one.texts, func(text string) bool { return strings.Contains(first, text) })
		})
	}
	return out
}

// delegatedTexts returns the arguments of a call that could be the task of a sub-agent: texts that are not too short for that.
func delegatedTexts(arguments json.RawMessage) []string {
	var values map[string]any
	if json.Unmarshal(arguments, &values) != nil {
		return nil
	}
	var texts []string
	for _, value := range values {
		if text, ok := value.(string); ok && len(strings.TrimSpace(text)) >= 8 {
			texts = append(texts, strings.TrimSpace(text))
		}
	}
	return texts
}

// link finds conversations that continue others.
func (c *converter) link() {
	for i, t := range c.talks {
		for _, before := range slices.Backward(c.talks[:i]) {
			last := before.turns[len(before.turns)-1]
			if before.next == nil && before.agent == t.agent && before.toolSet == t.toolSet && t.toolSet > 0 && last.Turn < t.turns[0].Turn && c.sameSystem(before, t) {
				before.next, t.follows = t, true
				break
			}
		}
	}
	// The first of a chain is one that follows none.
}

// sameSystem reports whether two conversations have the same system prompt.
func (c *converter) sameSystem(a, b *talk) bool {
	return c.system(a) == c.system(b)
}

func (c *converter) system(t *talk) string {
	var all strings.Builder
	for _, m := range c.path(t.turns[0]) {
		if m.Role == "system" {
			all.WriteString(textOf(m.Message) + "\x00")
		}
	}
	return all.String()
}

// trajectory returns the steps of a conversation and of those that continue it.
func (c *converter) trajectory(t *talk, id string, about About) *Trajectory {
	version := about.AgentVersion
	if version == "" {
		version = "unknown"
	}
	out := &Trajectory{SchemaVersion: Version, SessionID: about.ID, ID: id, Agent: Agent{Name: about.Agent, Version: version}}
	s := &steps{c: c, out: out, stepOf: map[string]int{}, done: map[int]bool{}}
	for ; t != nil; t = t.next {
		for i, turn := range t.turns {
			if out.Agent.Model == "" {
				out.Agent.Model = turn.Answered
			}
			if len(out.Agent.Tools) == 0 {
				out.Agent.Tools = definitions(c.tools[turn.ToolSet])
			}
			s.turn(turn, i == 0 && t.follows)
		}
	}
	return out
}

// definitions returns tools in the shape of OpenAI's functions.
func definitions(tools []model.Tool) []any {
	var out []any
	for _, t := range tools {
		f := map[string]any{"name": t.Name}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if t.Parameters != nil {
			f["parameters"] = t.Parameters
		}
		out = append(out, map[string]any{"type": "function", "function": f})
	}
	return out
}

// steps collects the steps of a trajectory.
type steps struct {
	c      *converter
	out    *Trajectory
	stepOf map[string]int // the index of the step that made a call of a tool
	done   map[int]bool   // messages that have their step
	last   int            // the number of the latest answer
}

func (s *steps) add(step Step) *Step {
	step.ID = len(s.out.Steps) + 1
	s.out.Steps = append(s.out.Steps, step)
	return &s.out.Steps[len(s.out.Steps)-1]
}

// turn adds the messages that are new in a turn, and its answer.
func (s *steps) turn(t model.RecordedTurn, compacted bool) {
	path := s.c.path(t)
	replaced := s.last != 0 && !slices.ContainsFunc(path, func(m model.RecordedMessage) bool { return m.ID == s.last })
	if compacted || replaced {
		kind := "compaction"
		if !compacted {
			kind = "pruning"
		}
		s.add(Step{Source: fromSystem, Message: "The context was replaced.", Extra: map[string]any{"context_management": map[string]any{"type": kind, "boundary": "replace"}}})
	}
	for _, m := range path {
		if !s.done[m.ID] {
			s.done[m.ID] = true
			s.message(m.Message, t)
		}
	}
	if t.Answer == 0 {
		return
	}
	s.last = t.Answer
	s.done[t.Answer] = true
	s.answer(s.c.messages[t.Answer].Message, t)
}

// message adds a message that the agent sent.
func (s *steps) message(m model.Message, t model.RecordedTurn) {
	began := t.Began
	switch m.Role {
	case "tool":
		for _, p := range m.Parts {
			s.result(p)
		}
	case "assistant":
		// It is not what the model answered: the agent wrote it, or changed an answer.
		none := 0
		s.calls(s.add(Step{Time: &began, Source: fromAgent, Message: textOf(m), LLMCalls: &none}), m)
	case "system":
		s.add(Step{Time: &began, Source: fromSystem, Message: textOf(m)})
	default:
		s.add(Step{Time: &began, Source: fromUser, Message: textOf(m)})
	}
}

// calls adds the calls of tools to a step.
func (s *steps) calls(step *Step, m model.Message) {
	for i, p := range m.Parts {
		if p.Type != model.PartCall {
			continue
		}
		id := p.ID
		if _, taken := s.stepOf[id]; id == "" || taken { // calls of some protocols have no id
			id = fmt.Sprintf("%s-%d-%d", p.Name, step.ID, i)
		}
		step.Calls = append(step.Calls, ToolCall{ID: id, Name: p.Name, Arguments: object(p.Arguments)})
		s.stepOf[p.ID] = step.ID - 1
		s.stepOf[id] = step.ID - 1
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

// result adds the result of a call to the step that made the call. One of no known call becomes a step of the system.
func (s *steps) result(p model.Part) {
	r := Result{Content: p.Text}
	if p.Failed {
		r.Extra = map[string]any{"is_error": true}
	}
	i, ok := s.stepOf[p.ID]
	if !ok {
		step := s.add(Step{Source: fromSystem, Message: "The result of a call that is not recorded."})
		step.Observation = &Observation{Results: []Result{r}}
		return
	}
	step := &s.out.Steps[i]
	// Calls of the same name without ids: the first that has no result.
	for _, call := range step.Calls {
		if call.ID != p.ID && !strings.HasPrefix(call.ID, p.ID+"-") {
			continue
		}
		answered := step.Observation != nil && slices.ContainsFunc(step.Observation.Results, func(r Result) bool { return r.Call == call.ID })
		if !answered {
			r.Call = call.ID
			break
		}
	}
	if step.Observation == nil {
		step.Observation = &Observation{}
	}
	step.Observation.Results = append(step.Observation.Results, r)
}

// answer adds the model's answer.
func (s *steps) answer(m model.Message, t model.RecordedTurn) {
	ended := t.Ended
	step := s.add(Step{Time: &ended, Source: fromAgent, Message: textOf(m), Model: t.Answered, Reasoning: reasoningOf(m)})
	u := t.Usage
	metrics := Metrics{Prompt: u.Input, Completion: u.Output, Cached: u.Cached, Cost: t.Cost, Extra: map[string]any{}}
	if u.CacheWrite != nil {
		metrics.Extra["cache_creation_input_tokens"] = *u.CacheWrite
	}
	if u.Reasoning != nil {
		metrics.Extra["reasoning_tokens"] = *u.Reasoning
	}
	if n := s.c.tokens[t.Turn]; n != nil {
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
	s.calls(step, m)
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

// refer names a sub-agent's trajectory in the step that called it: the one whose call has the sub-agent's first message in its arguments.
func (c *converter) refer(out *Trajectory, t *talk, id string) {
	first := strings.TrimSpace(textOf(c.messages[t.begin].Message))
	if first == "" {
		return
	}
	for i := range out.Steps {
		step := &out.Steps[i]
		for _, call := range step.Calls {
			for _, text := range delegatedTexts(call.Arguments) {
				if !strings.Contains(first, text) || step.Observation == nil {
					continue
				}
				for j := range step.Observation.Results {
					if r := &step.Observation.Results[j]; r.Call == call.ID {
						r.Subagents = append(r.Subagents, SubagentRef{ID: id})
						return
					}
				}
			}
		}
	}
}

// sums adds up the metrics of all calls, those of sub-agents included.
func (c *converter) sums(out *Trajectory) *FinalMetrics {
	f := &FinalMetrics{Steps: len(out.Steps)}
	var total model.Usage
	var cost *float64
	for _, t := range c.talks {
		for _, turn := range t.turns {
			total = total.Plus(turn.Usage)
			if turn.Cost != nil {
				if cost == nil {
					cost = new(float64)
				}
				*cost += *turn.Cost
			}
		}
	}
	f.Prompt, f.Completion, f.Cached, f.Cost = total.Input, total.Output, total.Cached, cost
	return f
}
