package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/asking"
)

// Options configure a run of the agent.
type Options struct {
	// API is the protocol of the model; model.Scripted stands for any of them.
	API       model.API
	Model     string            // in requests
	Transport http.RoundTripper // connects to the model
	// Instruction is the instruction of the task.
	Instruction string
	// Exec runs a command with bash, and returns its exit code. If the command took longer than
	// timeout, all that it started is dead and the error is environment.ErrTimeout. Other errors
	// end the agent.
	Exec func(ctx context.Context, command string, timeout time.Duration, output io.Writer) (int, error)
	// Log receives the model's texts, the commands and their output as they arrive, for users to
	// read. nil: discarded.
	Log io.Writer
	// Sleep waits for d, and reports false if ctx ended before; nil: awake.Sleep.
	Sleep func(ctx context.Context, d time.Duration) bool
}

// Errors of an agent that ends without having finished.
var (
	// ErrOverflow means that the conversation fills the model's context window.
	ErrOverflow = errors.New("the conversation is longer than the model can read")
	// ErrEmpty means that too many answers in a row were empty.
	ErrEmpty = fmt.Errorf("%d answers of the model in a row were empty", maxIdle)
)

// ModelError means that the model did not answer a request, even after retries.
type ModelError struct {
	Status  int // of HTTP; 0 if there was no answer or it was cut off
	Message string
	Turns   int // answers before
}

func (e *ModelError) Error() string {
	status := ""
	if e.Status != 0 {
		status = fmt.Sprintf(" with HTTP status %d", e.Status)
	}
	return fmt.Sprintf("the model gave no answer after %d turns%s: %s", e.Turns, status, e.Message)
}

// Run works on the instruction until the model answers without a tool call; then the error is nil.
// It returns soon after ctx has ended, with the error of ctx in the chain. There is no limit of
// turns: the transport has to refuse requests.
func Run(ctx context.Context, o Options) error {
	l := newLoop(o, false)
	defer l.client.CloseIdleConnections()
	for {
		over, err := l.turn(ctx)
		if over || err != nil {
			return err
		}
	}
}

// Ask sends the instruction to the model, without tools, and returns its answer. The answer may be
// empty or cut off. Errors are those of Run.
func Ask(ctx context.Context, o Options) (string, error) {
	l := newLoop(o, true)
	defer l.client.CloseIdleConnections()
	a, err := l.ask(ctx)
	switch {
	case err != nil:
		return "", err
	case api.EndOf(a.Why) == asking.Overflow:
		return "", ErrOverflow
	}
	l.log.printf("%s\n", a.Text)
	return a.Text, nil
}

// newLoop returns a loop whose conversation holds the instruction.
func newLoop(o Options, bare bool) *loop {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Sleep == nil {
		o.Sleep = awake.Sleep
	}
	l := &loop{Options: o, log: &lineWriter{to: o.Log, fresh: true}, talk: api.OrCommon(o.API).Ask(options(o.Model, bare)), client: &http.Client{Transport: o.Transport}}
	l.talk.User(strings.ToValidUTF8(o.Instruction, "\uFFFD"))
	return l
}

// options returns what all requests of a conversation have. A bare one offers no tools and has no
// prompt of the system.
func options(name string, bare bool) asking.Options {
	if bare {
		return asking.Options{Model: name}
	}
	return asking.Options{Model: name, System: SystemPrompt, Tool: &asking.Tool{Name: ToolName, Description: ToolDescription, Parameters: []asking.Parameter{
		{Name: "command", Type: "string", Description: commandText, Required: true},
		{Name: "timeout_sec", Type: "integer", Description: timeoutText},
	}}}
}

// loop is a running agent.
type loop struct {
	Options
	log    *lineWriter
	talk   asking.Conversation
	client *http.Client
	turns  int
	idle   int // answers in a row that are empty or cut off
}

// turn requests an answer and runs its calls. over reports whether the model has ended the work.
func (l *loop) turn(ctx context.Context) (over bool, err error) {
	a, err := l.ask(ctx)
	if err != nil {
		return false, err
	}
	l.turns++
	l.log.printf("# turn %d\n", l.turns)
	said := strings.TrimSpace(a.Text)
	if said != "" {
		l.log.printf("%s\n", said)
	}
	switch {
	case api.EndOf(a.Why) == asking.Overflow:
		return false, ErrOverflow
	case len(a.Calls) > 0:
		l.idle = 0
		l.talk.Add(a)
		replies, err := l.carryOut(ctx, a)
		if err != nil {
			return false, err
		}
		l.talk.Results(replies)
		return false, nil
	case api.EndOf(a.Why) != asking.Truncated && said != "":
		return true, nil
	}
	if l.idle++; l.idle >= maxIdle {
		if api.EndOf(a.Why) == asking.Truncated {
			return true, nil // the answer says that it is cut off
		}
		return false, ErrEmpty
	}
	if api.EndOf(a.Why) == asking.Truncated {
		l.log.printf("[the answer was cut off]\n")
		if said != "" { // no API takes reasoning alone
			l.talk.Add(a)
		}
		l.talk.User(cutText)
		return false, nil
	}
	l.log.printf("[the answer was empty%s]\n", parenthesis(a.Why))
	l.talk.User(emptyText)
	return false, nil
}

func parenthesis(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// carryOut runs the calls of an answer in order and returns their results.
func (l *loop) carryOut(ctx context.Context, a asking.Answer) ([]asking.Result, error) {
	replies := make([]asking.Result, 0, len(a.Calls))
	for i, c := range a.Calls {
		var r asking.Result
		var err error
		if i < maxCalls {
			r, err = l.run(ctx, c, api.EndOf(a.Why) == asking.Truncated)
		} else {
			r = l.refuse(c, fmt.Sprintf("Not run: one answer may have %d calls.", maxCalls))
		}
		if err != nil {
			return nil, err
		}
		replies = append(replies, r)
	}
	return replies, nil
}

func (l *loop) refuse(c asking.Call, why string) asking.Result {
	l.log.printf("[a call of the tool %q was refused: %s]\n", excerpt.Line(c.Name, 100), why)
	return asking.Result{Call: c, Text: why, Failed: true}
}

// run runs one call. cut reports whether the answer was cut off by its limit.
func (l *loop) run(ctx context.Context, c asking.Call, cut bool) (asking.Result, error) {
	if c.Name != ToolName {
		return l.refuse(c, fmt.Sprintf("There is no tool %q. The only tool is %s.", excerpt.Line(c.Name, 100), ToolName)), nil
	}
	command, timeout, problem := readArguments(c.Arguments)
	if problem != "" && cut {
		problem = "Not run: your answer was cut off within this call because it was too long. Write less in one call, for example a file in parts."
	}
	if problem != "" {
		return l.refuse(c, problem), nil
	}
	l.log.printf("$ %s\n", command)
	out := &excerpt.Ends{Size: maxOutput}
	code, err := l.Exec(ctx, command, timeout, io.MultiWriter(out, l.log))
	end := fmt.Sprintf("[exit code %d]", code)
	late := errors.Is(err, environment.ErrTimeout) && ctx.Err() == nil
	switch {
	case late:
		end = fmt.Sprintf("[the command was ended after %g seconds, with all that it had started]", timeout.Seconds())
	case err != nil:
		return asking.Result{}, err
	}
	l.log.printf("%s\n", end)
	text := plain(out.String())
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return asking.Result{Call: c, Text: text + end, Failed: late}, nil
}

// readArguments returns the command and its timeout, or the problem with the arguments.
func readArguments(text string) (command string, timeout time.Duration, problem string) {
	var given struct {
		Command *string  `json:"command"`
		Timeout *float64 `json:"timeout_sec"`
	}
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return "", 0, fmt.Sprintf("Not run: the arguments must be a JSON object with the text command and, if you like, the number timeout_sec. These were: %s", excerpt.Line(plain(text), 300))
	}
	timeout = defaultTimeout
	switch {
	case given.Command == nil || strings.TrimSpace(*given.Command) == "":
		return "", 0, "Not run: the argument command is missing or empty."
	case strings.ContainsRune(*given.Command, 0):
		return "", 0, "Not run: the command has a NUL character, which bash cannot take. Use printf with \\0."
	case len(*given.Command) > maxCommand:
		return "", 0, fmt.Sprintf("Not run: the command has %d bytes, more than %d. Write long files in parts.", len(*given.Command), maxCommand)
	case given.Timeout == nil:
	case *given.Timeout <= 0:
		return "", 0, "Not run: timeout_sec must be above 0."
	case *given.Timeout < maxTimeout.Seconds():
		timeout = time.Duration(*given.Timeout * float64(time.Second))
	default:
		timeout = maxTimeout
	}
	return *given.Command, timeout, ""
}

// plain returns output without control characters, which APIs may refuse.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' && r != '\x1b' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, text)
}

// lineWriter is a log of printf messages, each of which begins on a new line.
type lineWriter struct {
	to    io.Writer
	fresh bool // a line begins
}

// Write implements io.Writer. It never fails: a log must not end a command.
func (w *lineWriter) Write(p []byte) (int, error) {
	if len(p) > 0 {
		_, _ = w.to.Write(p)
		w.fresh = p[len(p)-1] == '\n'
	}
	return len(p), nil
}

func (w *lineWriter) printf(format string, args ...any) {
	if !w.fresh {
		_, _ = io.WriteString(w.to, "\n")
	}
	_, _ = fmt.Fprintf(w.to, format, args...)
	w.fresh = true
}
