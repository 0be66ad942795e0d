package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Script defines the model's answers. An answer depends on the conversation alone, so that
// concurrent trials, and agents that repeat a request, get the same answers. The first rule that
// fits the conversation provides the list of answers, otherwise it is Answers. The number of the
// model's earlier answers in the conversation is the index into the list.
type Script struct {
	Rules   []Rule   `yaml:"rules" json:"rules,omitempty" doc:"Answers for some conversations: the first rule that fits is used."`
	Answers []Answer `yaml:"answers" json:"answers,omitempty" doc:"The model's answers, in order: the answer to a conversation with two answers in it is the third."`
	// Repeat: the last answer is given again and again.
	Repeat bool `yaml:"repeat" json:"repeat,omitempty" default:"false" doc:"Give the last answer again when there are no more. Default: an error."`
}

// Rule holds the answers for one kind of conversation.
type Rule struct {
	System  string   `yaml:"system" json:"system,omitempty" doc:"Regular expression that the system prompt must match."`
	Last    string   `yaml:"last" json:"last,omitempty" doc:"Regular expression that the last message must match."`
	First   string   `yaml:"first" json:"first,omitempty" doc:"Regular expression that the first message of the user must match."`
	NoTools bool     `yaml:"no_tools" json:"no_tools,omitempty" doc:"Only requests that offer no tools."`
	Tool    string   `yaml:"tool" json:"tool,omitempty" doc:"Regular expression that the name of one of the offered tools must match."`
	Answers []Answer `yaml:"answers" json:"answers" doc:"The model's answers to requests that match."`
	Repeat  bool     `yaml:"repeat" json:"repeat,omitempty" default:"false" doc:"Give the last answer again when there are no more."`

	system, last, first, tool *regexp.Regexp
}

// Answer is one answer.
type Answer struct {
	Text      string `yaml:"text" json:"text,omitempty" raw:"true" doc:"The text of the answer."`
	Reasoning string `yaml:"reasoning" json:"reasoning,omitempty" raw:"true" doc:"The reasoning before it."`
	// Run: a call of whichever of the offered tools runs commands.
	Run    string  `yaml:"run" json:"run,omitempty" raw:"true" doc:"A command for bash, in a call of whichever of the offered tools runs commands."`
	Calls  []Call  `yaml:"calls" json:"calls,omitempty" doc:"Calls of tools."`
	Finish string  `yaml:"finish" json:"finish,omitempty" enum:"length" doc:"length: the answer is cut off by its limit."`
	Usage  Usage   `yaml:"usage" json:"usage,omitzero" doc:"The tokens that the model counts."`
	Model  string  `yaml:"model" json:"model,omitempty" doc:"The name that the model gives itself. Default: the one that was asked for."`
	Error  *Error  `yaml:"error" json:"error,omitempty" doc:"Answer with an error instead."`
	Delay  float64 `yaml:"delay_sec" json:"delay_sec,omitempty" min:"0" max:"3600" doc:"Seconds before the answer."`
	Pace   float64 `yaml:"pace_sec" json:"pace_sec,omitempty" min:"0" max:"3600" doc:"Seconds between two events of a stream."`
	Cut    bool    `yaml:"cut" json:"cut,omitempty" doc:"End the connection before the last event of a stream."`
	Empty  bool    `yaml:"empty" json:"empty,omitempty" doc:"End a stream before its first event."`
}

// Call is a call of a tool.
type Call struct {
	Name      string         `yaml:"name" json:"name" required:"true" doc:"Name of the tool."`
	Arguments map[string]any `yaml:"arguments" json:"arguments,omitempty" doc:"Its arguments."`
}

// Usage counts tokens.
type Usage struct {
	Input      int `yaml:"input" json:"input,omitempty" min:"0" doc:"All tokens of the input. Default: a quarter of its bytes."`
	Cached     int `yaml:"cached" json:"cached,omitempty" min:"0" doc:"Those of them that were read from a cache."`
	CacheWrite int `yaml:"cache_write" json:"cache_write,omitempty" min:"0" doc:"Those of them that were written to a cache."`
	Output     int `yaml:"output" json:"output,omitempty" min:"0" doc:"All tokens of the output. Default: a quarter of its bytes."`
	Reasoning  int `yaml:"reasoning" json:"reasoning,omitempty" min:"0" doc:"Those of them that are reasoning."`
}

// Error is an error that the provider answers.
type Error struct {
	Status     int    `yaml:"status" json:"status" required:"true" min:"400" max:"599" doc:"The status of HTTP."`
	Code       string `yaml:"code" json:"code,omitempty" enum:"context_length" doc:"context_length: the conversation is longer than the model can read, said as the provider of each protocol says it."`
	Message    string `yaml:"message" json:"message,omitempty" doc:"The message of the provider."`
	RetryAfter int    `yaml:"retry_after_sec" json:"retry_after_sec,omitempty" min:"0" max:"86400" doc:"Seconds in the header Retry-After."`
	// InStream: requests that ask for no stream get the status.
	InStream bool `yaml:"in_stream" json:"in_stream,omitempty" doc:"The error is an event in the stream, after the text of the answer. The status of HTTP is then 200."`
	// Times is the number of errors before the answer.
	Times int `yaml:"times" json:"times,omitempty" min:"0" max:"1000000" doc:"How many requests of a trial get the error; then the answer comes. Default: all."`
}

// Problem is a problem of a script.
type Problem struct {
	At   []string // the path of keys and indexes in the file
	What string
	Hint string // the remedy
}

func (p *Problem) Error() string { return p.What }

// Check prepares a script and returns its first problem, a *Problem.
func (s *Script) Check() error {
	if list := s.Problems(); len(list) > 0 {
		return list[0]
	}
	return nil
}

// Problems prepares a script and returns its problems.
func (s *Script) Problems() []*Problem {
	var list []*Problem
	for i := range s.Rules {
		r, at := &s.Rules[i], []string{"rules", strconv.Itoa(i)}
		for _, one := range []struct {
			key, text string
			to        **regexp.Regexp
		}{{"system", r.System, &r.system}, {"last", r.Last, &r.last}, {"first", r.First, &r.first}, {"tool", r.Tool, &r.tool}} {
			if one.text == "" {
				continue
			}
			compiled, err := regexp.Compile(one.text)
			if err != nil {
				list = append(list, &Problem{slices.Concat(at, []string{one.key}), fmt.Sprintf("rules[%d].%s: %v", i, one.key, err), "correct the regular expression"})
			}
			*one.to = compiled
		}
		if len(r.Answers) == 0 {
			list = append(list, &Problem{at, fmt.Sprintf("rules[%d] has no answers", i), "add answers"})
		}
		list = append(list, answerProblems(r.Answers, slices.Concat(at, []string{"answers"}), fmt.Sprintf("rules[%d].answers", i))...)
	}
	if len(s.Rules) == 0 && len(s.Answers) == 0 {
		list = append(list, &Problem{nil, "the script has no answers", "add answers"})
	}
	return append(list, answerProblems(s.Answers, []string{"answers"}, "answers")...)
}

// answerProblems returns the problems of the answers at a path. where is the path as text.
func answerProblems(answers []Answer, at []string, where string) []*Problem {
	var list []*Problem
	add := func(i int, keys []string, what, hint string) {
		list = append(list, &Problem{slices.Concat(at, []string{strconv.Itoa(i)}, keys), fmt.Sprintf("%s[%d]%s", where, i, what), hint})
	}
	for i, a := range answers {
		switch {
		case a.Empty && a.Cut:
			add(i, []string{"empty"}, " has both empty and cut: a stream without events has none to leave out", "remove one of them")
		case a.Error != nil && a.Error.InStream && a.Error.Times == 0 && (a.Empty || a.Cut):
			add(i, []string{"error", "in_stream"}, ".error.in_stream ends every stream, so neither empty nor cut can apply", "remove them, or add times")
		}
		if a.Error != nil && a.Error.InStream && a.Error.RetryAfter > 0 {
			add(i, []string{"error", "retry_after_sec"}, ".error.retry_after_sec is a header, and an error in a stream has none", "remove it, or in_stream")
		}
	}
	return list
}

// find returns the answer to a conversation, and its place in the script.
func (s *Script) find(c model.Conversation) (*Answer, string, error) {
	answers, repeat, where := s.Answers, s.Repeat, "answers"
	for i := range s.Rules {
		if r := &s.Rules[i]; r.fits(c) {
			answers, repeat, where = r.Answers, r.Repeat, fmt.Sprintf("rules[%d].answers", i)
			break
		}
	}
	n := 0
	for i, m := range c.Messages {
		// Some clients split one answer into several messages.
		if m.Role == "assistant" && (i == 0 || c.Messages[i-1].Role != "assistant") {
			n++
		}
	}
	if n >= len(answers) && repeat && len(answers) > 0 {
		n = len(answers) - 1
	}
	if n >= len(answers) {
		return nil, "", fmt.Errorf("the script has no answer to a conversation with %d answers: %s has %d", n, where, len(answers))
	}
	return &answers[n], fmt.Sprintf("%s[%d]", where, n), nil
}

// fits reports whether the rule is for a conversation.
func (r *Rule) fits(c model.Conversation) bool {
	text := func(m model.Message) string {
		var out string
		for _, p := range m.Parts {
			out += p.Text + "\n"
		}
		return out
	}
	var system, first, last string
	for _, m := range c.Messages {
		switch {
		case m.Role == "system":
			system += text(m)
		case m.Role == "user" && first == "":
			first = text(m)
		}
		last = text(m)
	}
	return (r.system == nil || r.system.MatchString(system)) && (r.first == nil || r.first.MatchString(first)) && (r.last == nil || r.last.MatchString(last)) &&
		(!r.NoTools || len(c.Tools) == 0) &&
		(r.tool == nil || slices.ContainsFunc(c.Tools, func(t model.Tool) bool { return r.tool.MatchString(t.Name) }))
}

// say returns the answer in the form in which it is sent. n makes ids unique.
func (a *Answer) say(c model.Conversation, asked string, request []byte, n int) (rendering.Answer, error) {
	out := rendering.Answer{
		Request: request, Conversation: c, ID: fmt.Sprintf("scripted_%d", n), Model: cmp.Or(a.Model, asked), Text: a.Text, Reasoning: a.Reasoning,
		Truncated: a.Finish != "", Usage: rendering.Usage(a.Usage),
	}
	calls := slices.Clone(a.Calls)
	if a.Run != "" {
		one, err := runCall(c.Tools, a.Run)
		if err != nil {
			return rendering.Answer{}, err
		}
		calls = append(calls, one)
	}
	size := len(a.Text) + len(a.Reasoning)
	for i, one := range calls {
		arguments, err := json.Marshal(one.Arguments)
		if err != nil {
			return rendering.Answer{}, err
		}
		if one.Arguments == nil {
			arguments = []byte("{}")
		}
		size += len(arguments)
		out.Calls = append(out.Calls, rendering.Call{ID: fmt.Sprintf("call_%d_%d", n, i), Name: one.Name, Arguments: arguments})
	}
	if out.Usage.Input == 0 {
		out.Usage.Input = len(request)/4 + 1
	}
	if out.Usage.Output == 0 && size > 0 {
		out.Usage.Output = size/4 + 1
	}
	return out, nil
}

// shells are the names of tools that run commands in known agents.
var shells = []string{"bash", "Bash", "shell", "exec_command", "run_shell_command", "shell_command", "local_shell", "execute_command", "execute_bash", "run_command", "terminal", "Shell", "developer__shell", "exec", "run_terminal_command", "run_commands"}

// runCall returns a call of the offered tool that runs commands.
func runCall(tools []model.Tool, command string) (Call, error) {
	for _, name := range shells {
		i := slices.IndexFunc(tools, func(t model.Tool) bool { return t.Name == name })
		if i < 0 {
			continue
		}
		var schema struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
			Required []string `json:"required"`
		}
		_ = json.Unmarshal(tools[i].Parameters, &schema) // a tool without a schema is called with command
		arguments := map[string]any{}
		for _, key := range []string{"command", "cmd", "script", "input", "commands"} {
			property, ok := schema.Properties[key]
			if !ok && key != "command" {
				continue
			}
			if !ok && len(schema.Properties) > 0 {
				continue
			}
			arguments[key] = command
			switch {
			case property.Type == "array" && key == "commands":
				arguments[key] = []string{command}
			case property.Type == "array":
				arguments[key] = []string{"bash", "-lc", command}
			}
			break
		}
		for _, key := range schema.Required {
			if _, ok := arguments[key]; !ok {
				switch schema.Properties[key].Type {
				case "boolean":
					arguments[key] = false
				case "number", "integer":
					arguments[key] = 60
				case "array":
					arguments[key] = []any{}
				default:
					arguments[key] = "run a command"
				}
			}
		}
		return Call{Name: name, Arguments: arguments}, nil
	}
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return Call{}, fmt.Errorf("the agent offers no tool that runs commands, only %q: write calls", names)
}
