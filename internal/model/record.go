package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// Recorder writes turns as lines of JSON. Each message of a conversation is written once: a turn
// refers to the message that it follows. It is not safe for concurrent use; Options.Keep is called
// for one turn at a time.
type Recorder struct {
	w    io.Writer
	left int64 // bytes that may still be written
	// known maps the digest of a written message and all before it to its number.
	known  map[[sha256.Size]byte]int
	tools  map[[sha256.Size]byte]int
	n      int
	tokens latestTokens
	step   string
	turns  int // of the steps before
	last   int // the number of the latest turn
}

// Begin begins a step of the trial's task: later turns have its name. Their numbers, which begin
// anew with each session, continue those before.
func (r *Recorder) Begin(step string) { r.step, r.turns = step, r.last }

// NewRecorder returns a Recorder that writes at most limit bytes. Later turns are written without
// their messages.
func NewRecorder(w io.Writer, limit int64) *Recorder {
	return &Recorder{w: w, left: limit, known: map[[sha256.Size]byte]int{}, tools: map[[sha256.Size]byte]int{}}
}

// RecordedMessage is a message with its number and that of the message before it, or 0.
type RecordedMessage struct {
	ID     int `json:"id"`
	Parent int `json:"parent"`
	Message
}

// RecordedTurn is a line that a Recorder writes.
type RecordedTurn struct {
	Turn     int               `json:"turn"`
	Step     string            `json:"step,omitempty"` // of a task with steps
	Agent    string            `json:"agent,omitempty"`
	Asked    string            `json:"requested_model"`
	Answered string            `json:"answered_model,omitempty"`
	Messages []RecordedMessage `json:"messages,omitempty"` // new ones, including the answer
	// Last is the message that the answer follows, Answer the answer; 0 if there is none or
	// messages are not recorded.
	Last      int             `json:"last,omitempty"`
	Answer    int             `json:"answer,omitempty"`
	Choices   []Message       `json:"choices,omitempty"` // the further answers of a request that wants several
	Finish    string          `json:"finish_reason,omitempty"`
	Whole     bool            `json:"whole"`
	Usage     Usage           `json:"usage"`
	Cost      *float64        `json:"cost"`
	AtLeast   bool            `json:"cost_at_least,omitempty"` // Cost is a lower bound
	Began     time.Time       `json:"began_at"`
	FirstByte *time.Time      `json:"first_byte_at,omitempty"`
	Ended     time.Time       `json:"ended_at"`
	Waiting   float64         `json:"waiting_sec,omitempty"`
	Stripped  []string        `json:"stripped_tools,omitempty"`
	Removed   []string        `json:"removed_fields,omitempty"`
	ToolSet   int             `json:"tool_set,omitempty"` // the number of the set of tools that was offered
	Tools     []Tool          `json:"tools,omitempty"`    // of a set that is new
	Failure   *Failure        `json:"failure,omitempty"`
	Cut       bool            `json:"messages_left_out,omitempty"` // because the file is full
	Tokens    *RecordedTokens `json:"tokens,omitempty"`
}

// Record writes a turn.
func (r *Recorder) Record(t Turn) error {
	line := RecordedTurn{
		Turn: r.turns + t.N, Step: r.step, Agent: t.Agent, Asked: t.Asked, Answered: t.Answer.Model, Finish: t.Answer.Finish, Whole: t.Whole, Usage: t.Answer.Usage,
		Cost: t.Cost, AtLeast: t.AtLeast, Began: t.Began.UTC(), Ended: t.Ended.UTC(), Waiting: t.Waiting.Seconds(), Stripped: t.Stripped, Removed: t.Removed, Failure: t.Failure,
	}
	r.last = max(r.last, line.Turn)
	if !t.FirstByte.IsZero() {
		line.FirstByte = new(t.FirstByte.UTC())
	}
	bare := line
	line.Choices = t.Answer.Choices
	if t.Answer.Tokens != nil {
		line.Tokens = r.tokens.shorten(*t.Answer.Tokens)
	}
	var at [sha256.Size]byte
	parent := 0
	add := func(m Message) {
		h := sha256.New()
		h.Write(at[:])
		_ = json.NewEncoder(h).Encode(canonical(m)) // a digest takes any text
		h.Sum(at[:0])
		id, ok := r.known[at]
		if !ok {
			r.n++
			id = r.n
			r.known[at] = id
			line.Messages = append(line.Messages, RecordedMessage{id, parent, m})
		}
		parent = id
	}
	for _, m := range t.Conversation.Messages {
		add(m)
	}
	line.Last = parent
	if len(t.Answer.Message.Parts) > 0 {
		add(t.Answer.Message)
		line.Answer = parent
	}
	if len(t.Conversation.Tools) > 0 {
		h := sha256.New()
		_ = json.NewEncoder(h).Encode(t.Conversation.Tools) // as above
		set := [sha256.Size]byte(h.Sum(nil))
		if r.tools[set] == 0 {
			r.tools[set] = len(r.tools) + 1
			line.Tools = t.Conversation.Tools
		}
		line.ToolSet = r.tools[set]
	}
	text, err := lineOf(line)
	if err != nil {
		return err
	}
	if int64(len(text)) > r.left {
		bare.Cut = true
		r.left = 0 // also for tokens: whether messages that are left out have a secret is not known
		if text, err = lineOf(bare); err != nil {
			return err
		}
	} else {
		r.left -= int64(len(text))
		if line.Tokens != nil {
			r.tokens = latestTokens{line.Turn, *t.Answer.Tokens}
		}
	}
	_, err = r.w.Write(text)
	return err
}

// Canonical returns a message without the differences that clients introduce when they send it
// again.
func Canonical(m Message) Message { return canonical(m) }

// canonical returns a message without the parts that clients omit or write differently when they
// send an answer again: reasoning, the spaces around texts, how they are divided into parts, and
// the form of arguments.
func canonical(m Message) Message {
	out := Message{Role: m.Role}
	var text string
	for _, p := range m.Parts {
		switch p.Type {
		case PartReasoning:
			continue
		case PartText:
			text += p.Text
			continue
		case PartCall:
			var arguments any
			if json.Unmarshal(p.Arguments, &arguments) == nil {
				if text, err := json.Marshal(arguments); err == nil {
					p.Arguments = text
				}
			}
		case PartResult, PartMedia:
		}
		out.Parts = append(out.Parts, p)
	}
	if text = strings.TrimSpace(text); text != "" {
		out.Parts = append(out.Parts, Part{Type: PartText, Text: text})
	}
	return out
}

func lineOf(v RecordedTurn) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// Record selects the recorded contents of calls.
type Record string

// The kinds of records.
const (
	RecordMessages Record = "messages" // conversations, tools and usage
	RecordUsage    Record = "usage"    // no contents: neither messages nor tools nor a provider's texts of errors
	RecordNone     Record = "none"
)
