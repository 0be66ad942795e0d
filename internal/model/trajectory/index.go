package trajectory

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/model"
)

// MaxRecord bounds a record, in bytes. The gateway writes a quarter of it.
const MaxRecord = 2 << 30

// Limits on memory, in bytes.
const (
	maxValue = 64 << 20  // of a message in a record, or of the tools of a call
	maxIndex = 256 << 20 // of all messages and calls without their texts, approximately
	maxCache = 4 << 20   // of messages that were read lately
	maxBatch = 16 << 20  // of messages that are compared with all others
)

// ErrTooLong is returned if a record, or the requested result, is longer than allowed.
var ErrTooLong = errors.New("the conversation is too long")

// tooLong is an ErrTooLong whose text names the part that is too long.
type tooLong string

func (t tooLong) Error() string        { return string(t) }
func (t tooLong) Is(target error) bool { return target == ErrTooLong }

// index is a record in memory, without the texts of messages, which are read again on demand.
type index struct {
	r        io.ReaderAt
	messages map[int]*message
	tools    map[int]span // by the numbers of sets
	talks    []*talk
	begun    map[beginning]*talk
	order    []ordered // turns with their conversations, as they were recorded
	head     *talk     // the agent's own conversation; nil if there is none
	visits   int       // of messages, to find those of turns
	size     int       // approximate, of the whole index
	broken   int
	empty    int // turns without messages

	tokens map[int]*model.Tokens // by the numbers of turns
	reader model.TokensReader
	ids    int // of all turns up to the first that is too much
	maxIDs int
	unkept int // turns whose tokens are left out: there are too many, or the record has a gap

	maxCache, maxBatch int
	cached             map[*message]model.Message
	cacheSize          int
}

// span is the position of a value in a record.
type span struct {
	at   int64
	size int
}

// message is a message without its texts.
type message struct {
	id, parent int
	at         span
	parts      int
	tool       bool   // it has results of tools
	role       string // system, assistant, or something else
	arguments  bool   // some parts have arguments
	calls      []part // of tools
	results    []string
	first      int                // the first message up to it that is not the system's; 0 if there is none
	system     *[sha256.Size]byte // a digest of the messages of the system up to it; nil if there are none
	content    [sha256.Size]byte  // a digest of the parts that clients repeat
}

// part is a call in a message.
type part struct {
	n        int // of the parts
	id, name string
}

func newMessage(m model.RecordedMessage, at span) *message {
	out := &message{id: m.ID, parent: m.Parent, at: at, parts: len(m.Parts), tool: m.Role == "tool", content: contentOf(m.Message)}
	switch m.Role {
	case "system":
		out.role = "system"
		digest := sha256.Sum256([]byte(textOf(m.Message)))
		out.system = &digest
	case "assistant":
		out.role = "assistant"
	}
	for i, p := range m.Parts {
		if out.tool {
			out.results = append(out.results, p.ID)
		}
		if p.Type == model.PartCall {
			out.calls = append(out.calls, part{i, p.ID, p.Name})
		}
		out.arguments = out.arguments || len(p.Arguments) > 0
	}
	return out
}

// own reports whether the message is from the model or a tool.
func (m *message) own() bool { return m.tool || m.role == "assistant" }

// contentOf returns a digest of a message that is the same when a client sends the message again.
func contentOf(m model.Message) (digest [sha256.Size]byte) {
	h := sha256.New()
	m = model.Canonical(m)
	for _, p := range m.Parts {
		for _, text := range []string{m.Role, string(p.Type), p.ID, p.Name, p.Text, p.Media, string(p.Arguments)} {
			fmt.Fprintf(h, "%d:%s", len(text), text)
		}
	}
	h.Sum(digest[:0])
	return digest
}

// needs returns the approximate memory of a message in bytes.
func (m *message) needs() int {
	n := 280
	for _, p := range m.calls {
		n += 100 + len(p.id) + len(p.name)
	}
	for _, id := range m.results {
		n += 32 + len(id)
	}
	return n
}

// ordered is a turn with its conversation.
type ordered struct {
	turn *model.RecordedTurn
	talk *talk
}

// talk is one conversation: turns with a common beginning.
type talk struct {
	begin   int // the first message that is not the system's
	agent   string
	toolSet int
	turns   []*model.RecordedTurn
	next    *talk // its continuation after a compaction, or the conversation of the next step
	follows bool  // it is a continuation
	step    string
	first   bool // the agent's own conversation begins with it in its step
}

// beginning tells the conversations of a record apart.
type beginning struct {
	message int    // the first that is not the system's
	step    string // of a task with steps
}

// maxVisits is the maximum number of visits to messages, over all turns: a file that Rollout did
// not write could require far more than its size suggests.
const maxVisits = 500_000_000

// maxIDs bounds the ids of tokens of a record: each turn repeats those of its whole conversation.
const maxIDs = 4 << 20

// read reads a record. limit, if not 0, bounds its lines without the ids of tokens, and the memory
// of the ids, in bytes.
func read(r *io.SectionReader, limit int64) (*index, error) {
	if r.Size() > MaxRecord {
		return nil, tooLong(fmt.Sprintf("the record has more than %d MiB", MaxRecord>>20))
	}
	x := &index{
		r: r, messages: map[int]*message{}, tools: map[int]span{}, begun: map[beginning]*talk{}, tokens: map[int]*model.Tokens{}, maxIDs: maxIDs,
		maxCache: maxCache, maxBatch: maxBatch, cached: map[*message]model.Message{},
	}
	if limit > 0 {
		x.maxIDs = int(min(maxIDs, limit/4))
	}
	var size int64
	in := lines{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, r.Size()), 64<<10)}
	for {
		l, err := in.next()
		switch {
		case errors.Is(err, io.EOF):
			return x, nil
		case errors.Is(err, ErrTooLong):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("read the recorded calls: %w", err)
		case l == nil:
			x.broken++
			continue
		}
		if size += l.size - l.tokens; limit > 0 && size > limit {
			return nil, ErrTooLong
		}
		if x.add(l); x.size > maxIndex {
			return nil, tooLong(fmt.Sprintf("the record has too many messages and calls: %d and %d", len(x.messages), len(x.order)))
		}
	}
}

func (x *index) add(l *line) {
	for _, m := range l.messages {
		if before := x.messages[m.parent]; before != nil {
			m.first = before.first
			switch {
			case m.system == nil, before.first != 0: // agents remind the model by system messages in between, which differ after a compaction
				m.system = before.system
			case before.system != nil:
				digest := sha256.Sum256(slices.Concat(before.system[:], m.system[:]))
				m.system = &digest
			}
		}
		if m.first == 0 && m.role != "system" {
			m.first = m.id
		}
		x.messages[m.id] = m
		x.size += m.needs()
	}
	t := &l.turn
	x.size += 1000 + l.kept
	x.keepTokens(t)
	if l.tools.size > 0 {
		x.tools[t.ToolSet] = l.tools
	}
	if t.Last == 0 && t.Answer == 0 {
		x.empty++
		return
	}
	begin := beginning{x.beginning(t), t.Step}
	one := x.begun[begin]
	if one == nil {
		one = &talk{begin: begin.message, step: t.Step, agent: t.Agent}
		x.begun[begin] = one
		x.talks = append(x.talks, one)
	}
	one.turns = append(one.turns, t)
	one.toolSet = max(one.toolSet, t.ToolSet)
	x.order = append(x.order, ordered{t, one})
}

// keepTokens keeps the tokens of a turn.
func (x *index) keepTokens(t *model.RecordedTurn) {
	if t.Tokens == nil {
		return
	}
	var whole *model.Tokens
	if x.ids <= x.maxIDs {
		if whole = x.reader.Read(*t); whole != nil {
			x.ids += len(whole.Prompt) + len(whole.Completion)
		}
	}
	if t.Tokens = nil; whole == nil || x.ids > x.maxIDs {
		x.unkept++
		return
	}
	x.tokens[t.Turn] = whole
}

// beginning returns the number of the first message of a turn that is not the system's, or of its
// last.
func (x *index) beginning(t *model.RecordedTurn) int {
	last := x.messages[t.Last]
	switch {
	case last == nil:
		return 0
	case last.first == 0:
		return last.id
	}
	return last.first
}

// path returns the messages that a turn's answer follows, from the first.
func (x *index) path(t *model.RecordedTurn) []*message {
	var path []*message
	for id := t.Last; id != 0 && len(path) <= len(x.messages) && x.visits <= maxVisits; x.visits++ {
		m, ok := x.messages[id]
		if !ok {
			break
		}
		path = append(path, m)
		id = m.parent
	}
	slices.Reverse(path)
	return path
}

// load reads a message. For nil, it returns a message without parts.
func (x *index) load(m *message) (model.Message, error) {
	if m == nil {
		return model.Message{}, nil
	}
	if known, ok := x.cached[m]; ok {
		return known, nil
	}
	var out model.RecordedMessage
	if err := x.value(m.at, &out); err != nil {
		return model.Message{}, err
	}
	if out.ID != m.id || len(out.Parts) != m.parts {
		return model.Message{}, errChanged
	}
	if m.at.size <= x.maxCache {
		if x.cacheSize += m.at.size; x.cacheSize > x.maxCache {
			clear(x.cached)
			x.cacheSize = m.at.size
		}
		x.cached[m] = out.Message
	}
	return out.Message, nil
}

// value decodes the value at a position of the record.
func (x *index) value(at span, into any) error {
	text := make([]byte, at.size)
	if _, err := x.r.ReadAt(text, at.at); err != nil {
		return fmt.Errorf("read the recorded calls again: %w", err)
	}
	if err := bounded.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return nil
}

var errChanged = errors.New("the record has changed while it was read")

// definitions returns a set of tools in the shape of OpenAI's functions.
func (x *index) definitions(set int) ([]any, error) {
	at, ok := x.tools[set]
	if !ok {
		return nil, nil
	}
	var tools []model.Tool
	if err := x.value(at, &tools); err != nil {
		return nil, err
	}
	return definitions(tools), nil
}

// link finds conversations that continue others, and the agent's own: of those that no other
// delegated, of those that offer tools, the one with the most turns; of these, the first. The
// result is the beginning of a chain of continuations. If the task has steps, the agent's own
// conversation of each step follows that of the step before.
func (x *index) link() error {
	x.chain()
	delegated, err := x.delegated()
	if err != nil {
		return err
	}
	ofStep := map[string][]*talk{}
	var names []string
	for _, t := range x.talks {
		if ofStep[t.step] == nil {
			names = append(names, t.step)
		}
		ofStep[t.step] = append(ofStep[t.step], t)
	}
	var last *talk
	for _, name := range names {
		head := headOf(ofStep[name], delegated)
		head.first = name != ""
		if last == nil {
			x.head = head
		} else {
			last.next, head.follows = head, true
		}
		for last = head; last.next != nil; {
			last = last.next
		}
	}
	if x.head == nil {
		return ErrEmpty
	}
	return x.visited()
}

// headOf returns the first conversation of the agent's own in a step.
func headOf(talks []*talk, delegated map[*talk]bool) (head *talk) {
	better := func(a, b *talk) bool {
		switch {
		case delegated[a] != delegated[b]:
			return delegated[b]
		case (a.toolSet > 0) != (b.toolSet > 0):
			return a.toolSet > 0
		}
		return len(a.turns) > len(b.turns)
	}
	for _, t := range talks {
		if head == nil || better(t, head) {
			head = t
		}
	}
	for _, t := range slices.Backward(talks) { // a continuation comes after the conversation it continues
		if t.next == head {
			head = t
		}
	}
	return head
}

// visited returns ErrTooLong if too many messages were visited.
func (x *index) visited() error {
	if x.visits > maxVisits {
		return ErrTooLong
	}
	return nil
}

// chain finds conversations that continue others: each the latest one with the same tools, agent
// and system prompt that had ended.
func (x *index) chain() {
	type kind struct {
		step    string
		agent   string
		toolSet int
		system  [sha256.Size]byte
	}
	open := map[kind][]*talk{} // without a continuation, in their order
	for _, t := range x.talks {
		if t.toolSet == 0 {
			continue
		}
		k := kind{step: t.step, agent: t.agent, toolSet: t.toolSet}
		if last := x.messages[t.turns[0].Last]; last != nil && last.system != nil {
			k.system = *last.system
		}
		for i, before := range slices.Backward(open[k]) {
			if x.visits++; x.visits > maxVisits {
				return
			}
			if before.turns[len(before.turns)-1].Turn < t.turns[0].Turn {
				before.next, t.follows = t, true
				open[k] = slices.Delete(open[k], i, i+1)
				break
			}
		}
		open[k] = append(open[k], t)
	}
}

// maxDelegations is the maximum number of conversations, and of calls, that delegated examines: an
// agent could make any number.
const maxDelegations = 1000

// delegated returns the conversations whose first message is an argument of a call in another one:
// those of sub-agents.
func (x *index) delegated() (map[*talk]bool, error) {
	out := map[*talk]bool{}
	if len(x.talks) < 2 {
		return out, nil
	}
	err := x.firsts(x.talks[:min(len(x.talks), maxDelegations)], func(firsts []firstText) error {
		calls := 0
		for _, one := range x.order {
			answer := x.messages[one.turn.Answer]
			if answer == nil || !answer.arguments {
				continue
			}
			m, err := x.load(answer)
			if err != nil {
				return err
			}
			for _, p := range m.Parts {
				texts := delegatedTexts(p.Arguments)
				if len(texts) == 0 {
					continue
				}
				if calls++; calls > maxDelegations {
					return nil
				}
				for _, first := range firsts {
					out[first.talk] = out[first.talk] || first.talk != one.talk && first.talk.step == one.talk.step && first.contains(texts)
				}
			}
		}
		return nil
	})
	return out, err
}

// firstText is the first message of a conversation.
type firstText struct {
	talk *talk
	text string
}

func (f firstText) contains(texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(f.text, text) })
}

// firsts calls each with batches of the first messages of conversations, limited by maxBatch. Those
// that are too short for a task are left out.
func (x *index) firsts(talks []*talk, each func([]firstText) error) error {
	var batch []firstText
	size := 0
	for _, t := range talks {
		m, err := x.load(x.messages[t.begin])
		if err != nil {
			return err
		}
		text := strings.TrimSpace(textOf(m))
		if len(text) < minTask {
			continue
		}
		if size += len(text); size > x.maxBatch && len(batch) > 0 {
			if err := each(batch); err != nil {
				return err
			}
			batch, size = nil, len(text)
		}
		batch = append(batch, firstText{t, text})
	}
	if len(batch) == 0 {
		return nil
	}
	return each(batch)
}

// minTask is the length of the shortest text that could be the task of a sub-agent, in bytes.
const minTask = 8

// delegatedTexts returns the arguments of a call that could be the task of a sub-agent: texts that
// are not too short for that.
func delegatedTexts(arguments json.RawMessage) []string {
	var values map[string]any
	if bounded.Unmarshal(arguments, &values) != nil {
		return nil
	}
	var texts []string
	for _, value := range values {
		if text, ok := value.(string); ok && len(strings.TrimSpace(text)) >= minTask {
			texts = append(texts, strings.TrimSpace(text))
		}
	}
	return texts
}

// hasTokens reports whether a step has the ids of tokens.
func (x *index) hasTokens() bool {
	return slices.ContainsFunc(x.order, func(one ordered) bool {
		n := x.tokens[one.turn.Turn]
		return one.turn.Answer != 0 && n != nil && len(n.Prompt) > 0
	})
}
