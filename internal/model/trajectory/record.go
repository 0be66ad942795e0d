package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
)

// Record is a file that a model.Recorder wrote. Its texts are read on demand, and are hostile.
type Record struct{ x *index }

// Read reads the lines of a model.Recorder, which must stay readable while the Record is used.
// Lines that cannot be decoded are left out. limit bounds its size in bytes, without the ids of
// tokens, of which it keeps as many as fit into limit; 0 means MaxRecord. It fails with ErrTooLong,
// or with ErrEmpty if no call has a conversation.
func Read(r *io.SectionReader, limit int64) (*Record, error) {
	x, err := read(r, limit)
	if err == nil {
		err = x.link()
	}
	if err != nil {
		return nil, err
	}
	return &Record{x}, nil
}

// ChatMessage is a message in the shape of the Chat Completions API. Source:
// https://platform.openai.com/docs/api-reference/chat; reasoning_content is a field of servers of
// open models.
type ChatMessage struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []ChatCall `json:"tool_calls,omitempty"`
	Call      string     `json:"tool_call_id,omitempty"` // of a tool's result
}

// ChatCall is a call of a tool.
type ChatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // "function"
	Function ChatFunction `json:"function"`
}

// ChatFunction is the function of a ChatCall.
type ChatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chat adds a message in the shape of the Chat Completions API. A message with several results of
// tools becomes several.
func chat(to []ChatMessage, m model.Message) []ChatMessage {
	if m.Role == "tool" {
		for _, p := range m.Parts {
			if p.Type == model.PartResult {
				to = append(to, ChatMessage{Role: "tool", Content: p.Text, Call: callID(p)})
			}
		}
		return to
	}
	out := ChatMessage{Role: m.Role, Content: textOf(m), Reasoning: reasoningOf(m)}
	for _, p := range m.Parts {
		if p.Type == model.PartCall {
			arguments := string(p.Arguments)
			var text string
			if json.Unmarshal(p.Arguments, &text) == nil { // the model wrote no valid JSON
				arguments = text
			}
			out.Calls = append(out.Calls, ChatCall{ID: callID(p), Type: "function", Function: ChatFunction{Name: p.Name, Arguments: arguments}})
		}
	}
	return append(to, out)
}

// callID returns the identifier of a call: the name of the tool in protocols without identifiers.
func callID(p model.Part) string {
	if p.ID == "" {
		return p.Name
	}
	return p.ID
}

// distinct gives each call of a conversation a unique identifier, and results that of their call:
// some protocols have none, and some providers restart the numbering with each answer. Results of
// calls with one identifier come in the order of the calls.
func distinct(messages []ChatMessage) []ChatMessage {
	ids := newIdentifiers()
	for i := range messages {
		ids.next(&messages[i])
	}
	return messages
}

// identifiers makes the calls of a conversation distinct, message by message.
type identifiers struct {
	seen map[string]int
	open map[string][]string // calls without a result, by the identifiers that they came with
}

func newIdentifiers() identifiers { return identifiers{map[string]int{}, map[string][]string{}} }

func (d identifiers) next(m *ChatMessage) {
	for j := range m.Calls {
		c := &m.Calls[j]
		given := c.ID
		if d.seen[given]++; d.seen[given] > 1 {
			c.ID = fmt.Sprintf("%s-%d", given, d.seen[given])
		}
		d.open[given] = append(d.open[given], c.ID)
	}
	if waiting := d.open[m.Call]; m.Role == "tool" && len(waiting) > 0 {
		d.open[m.Call], m.Call = waiting[1:], waiting[0]
	}
}

// chats returns messages in the shape of the Chat Completions API.
func (x *index) chats(path []*message) ([]ChatMessage, error) {
	out := []ChatMessage{}
	for _, one := range path {
		m, err := x.load(one)
		if err != nil {
			return nil, err
		}
		out = chat(out, m)
	}
	return out, nil
}

// Turn is an answer with its prompt. Its fields are those of the TrajectoryStep that training
// programs read.
type Turn struct {
	Prompt      []ChatMessage  `json:"prompt"`
	Completion  []ChatMessage  `json:"completion"`
	Response    any            `json:"response"` // null: the bytes of answers are not kept
	Tokens      *Tokens        `json:"tokens"`   // null: not recorded
	Reward      *float64       `json:"reward"`   // null: a trial has one reward
	Advantage   *float64       `json:"advantage"`
	IsTruncated bool           `json:"is_truncated"`
	ID          string         `json:"trajectory_id"`
	Extras      map[string]any `json:"extras"`
}

// Tokens are the tokens of a Turn. Its fields are those of the TrajectoryStepTokens that training
// programs read.
type Tokens struct {
	PromptIDs          []int32   `json:"prompt_ids"`
	PromptMask         []int8    `json:"prompt_mask"` // 0 for each: prompts are not trained on
	CompletionIDs      []int32   `json:"completion_ids"`
	CompletionMask     []int8    `json:"completion_mask"`     // 1 for each
	CompletionLogprobs []float64 `json:"completion_logprobs"` // null: the server did not state one for each
	OverlongPrompt     bool      `json:"overlong_prompt"`     // false: the model has answered
	IsTruncated        bool      `json:"is_truncated"`
	RoutedExperts      any       `json:"routed_experts"` // null: not asked for
}

// tokensOf returns tokens with their masks; nil if there are none.
func tokensOf(t *model.Tokens, truncated bool) *Tokens {
	if t == nil {
		return nil
	}
	ones := make([]int8, len(t.Completion))
	for i := range ones {
		ones[i] = 1
	}
	return &Tokens{
		PromptIDs: t.Prompt, PromptMask: make([]int8, len(t.Prompt)), CompletionIDs: t.Completion, CompletionMask: ones, CompletionLogprobs: t.Logprobs, IsTruncated: truncated,
	}
}

// Conversation is a trial's conversation as JSON: the messages of the agent's own trajectory after
// its first prompt, all Turns in the order in which they ended, and the tools in the shape of
// OpenAI's functions.
type Conversation struct {
	Completion, Trajectory, Tools json.RawMessage
	// TokensOmitted is the number of Turns whose tokens were recorded and are left out, because
	// they are too long.
	TokensOmitted int
}

// Conversation returns the record with at most limit bytes, or ErrTooLong. If it is too long with
// the tokens, they are left out. id identifies the agent's own trajectory; others have a number
// appended, as in Convert. Conversations are held in memory: read the record with a limit.
func (r *Record) Conversation(id string, limit int) (Conversation, error) {
	out, err := r.conversation(id, limit, true)
	if errors.Is(err, ErrTooLong) && len(r.x.tokens) > 0 {
		return r.conversation(id, limit, false)
	}
	return out, err
}

func (r *Record) conversation(id string, limit int, withTokens bool) (Conversation, error) {
	out := Conversation{TokensOmitted: r.x.unkept}
	if !withTokens {
		out.TokensOmitted += len(r.x.tokens)
	}
	ids := r.ids(id)
	own := completion{x: r.x, done: map[int]bool{}, said: []ChatMessage{}}
	turns := list{limit: limit}
	for _, one := range r.x.order {
		t, path := one.turn, r.x.path(one.turn)
		if ids[one.talk] == id {
			if err := own.add(t, path, one.talk == r.x.head); err != nil {
				return out, err
			}
		}
		if t.Answer == 0 {
			continue
		}
		step, err := r.turn(t, path, withTokens)
		if err != nil {
			return out, err
		}
		step.ID = ids[one.talk]
		if err := turns.add(step); err != nil {
			return out, err
		}
	}
	if err := r.x.visited(); err != nil {
		return out, err
	}
	out.Trajectory = turns.end()
	var err error
	if out.Completion, err = encode(distinct(own.said)); err != nil {
		return out, err
	}
	tools, err := r.tools(r.x.head)
	if err != nil {
		return out, err
	}
	if len(tools) > 0 {
		if out.Tools, err = encode(tools); err != nil {
			return out, err
		}
	}
	if len(out.Completion)+len(out.Trajectory)+len(out.Tools) > limit {
		return Conversation{}, ErrTooLong
	}
	return out, nil
}

// completion collects the messages of an agent's own trajectory after its first prompt.
type completion struct {
	x    *index
	done map[int]bool // by the messages' ids: added, or of the first prompt
	said []ChatMessage
}

// add adds the new messages of a turn and of the path to it. ofHead reports whether the turn is in
// index.head.
func (c *completion) add(t *model.RecordedTurn, path []*message, ofHead bool) error {
	first := len(c.done) == 0 && ofHead
	for _, m := range path {
		if c.done[m.id] {
			continue
		}
		c.done[m.id] = true
		if first {
			continue
		}
		if err := c.say(m); err != nil {
			return err
		}
	}
	if t.Answer == 0 || c.done[t.Answer] {
		return nil
	}
	c.done[t.Answer] = true
	return c.say(c.x.messages[t.Answer])
}

func (c *completion) say(m *message) error {
	text, err := c.x.load(m)
	if err != nil {
		return err
	}
	c.said = chat(c.said, text)
	return nil
}

// turn returns a turn that has an answer, without its ID.
func (r *Record) turn(t *model.RecordedTurn, path []*message, withTokens bool) (Turn, error) {
	asked, err := r.x.chats(path)
	if err != nil {
		return Turn{}, err
	}
	answered, err := r.x.load(r.x.messages[t.Answer])
	if err != nil {
		return Turn{}, err
	}
	all := distinct(chat(asked, answered))
	truncated := api.Truncated(t.Finish)
	turn := Turn{Prompt: all[:len(asked)], Completion: all[len(asked):], IsTruncated: truncated, Extras: extras(t)}
	if withTokens {
		turn.Tokens = tokensOf(r.x.tokens[t.Turn], truncated)
	}
	return turn, nil
}

func extras(t *model.RecordedTurn) map[string]any {
	e := map[string]any{"turn": t.Turn, "model": t.Answered, "finish_reason": t.Finish, "usage": t.Usage, "cost_usd": t.Cost, "began_at": t.Began.Format(time.RFC3339Nano), "ended_at": t.Ended.Format(time.RFC3339Nano)}
	if t.AtLeast {
		e[lowerBound] = true
	}
	if t.Failure != nil {
		e["failure"] = t.Failure
	}
	return e
}

// ids returns the identifiers of the conversations' trajectories.
func (r *Record) ids(id string) map[*talk]string {
	ids := map[*talk]string{}
	chain := func(t *talk, id string) {
		for ; t != nil; t = t.next {
			ids[t] = id
		}
	}
	chain(r.x.head, id)
	n := 0
	for _, t := range r.x.talks {
		if t != r.x.head && !t.follows {
			n++
			chain(t, fmt.Sprintf("%s#%d", id, n))
		}
	}
	return ids
}

func (r *Record) tools(t *talk) ([]any, error) {
	for _, turn := range t.turns {
		if tools, err := r.x.definitions(turn.ToolSet); err != nil || len(tools) > 0 {
			return tools, err
		}
	}
	return nil, nil
}

// Branch is a conversation from its first message to an answer that no later call follows.
type Branch struct {
	ID    string
	Model string
	Tools []any // offered in the last call

	x    *index
	path []*message
}

// Messages calls each with every message. It holds one message in memory at a time.
func (b *Branch) Messages(each func(ChatMessage) error) error {
	ids := newIdentifiers()
	for _, one := range b.path {
		m, err := b.x.load(one)
		if err != nil {
			return err
		}
		for _, message := range chat(nil, m) {
			ids.next(&message)
			if err := each(message); err != nil {
				return err
			}
		}
	}
	return nil
}

// Branches calls each with every branch, in the order of their last answers. Sub-agents,
// conversations before and after a compaction, and answers that the agent did not use are separate
// branches. An answer that was cut off ends no branch.
func (r *Record) Branches(id string, each func(*Branch) error) error {
	followed := map[int]bool{}
	for _, one := range r.x.order {
		for _, m := range r.x.path(one.turn) {
			followed[m.id] = true
		}
	}
	ids := r.ids(id)
	for _, one := range r.x.order {
		t := one.turn
		if t.Answer == 0 || !t.Whole || followed[t.Answer] {
			continue
		}
		followed[t.Answer] = true // the same answer to the same conversation, once more
		tools, err := r.x.definitions(t.ToolSet)
		if err != nil {
			return err
		}
		b := &Branch{ID: ids[one.talk], Model: t.Answered, Tools: tools, x: r.x, path: append(r.x.path(t), r.x.messages[t.Answer])}
		if err := r.x.visited(); err != nil {
			return err
		}
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

// list builds a JSON list of bounded size.
type list struct {
	b     bytes.Buffer
	limit int
}

func (l *list) add(v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	if l.b.Len()+len(text) > l.limit {
		return ErrTooLong
	}
	if l.b.Len() > 0 {
		l.b.WriteByte(',')
	}
	l.b.Write(text)
	return nil
}

func (l *list) end() []byte { return []byte("[" + l.b.String() + "]") }

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
