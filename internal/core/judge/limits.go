package judge

import (
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
)

// maxSteps bounds the rounds of loops and runs of templates in one prompt, altogether.
const maxSteps = 50_000

var errPromptSteps = fmt.Errorf("the loops and templates of the prompt run more than %d times: loop over less", maxSteps)

// limitError is one of errPromptSize and errPromptSteps.
type limitError struct {
	limit error
	place string // the part of an error that templatePlace matches
}

func (e *limitError) Error() string { return e.limit.Error() }

func (e *limitError) Unwrap() error { return e.limit }

// stepName is a function that each round of a loop and each run of a template calls.
const stepName = "rolloutStep"

// countSteps makes templates call stepName. text/template cannot be interrupted, and loops that
// print nothing never reach the bounded writer.
func countSteps(t *template.Template) {
	for _, one := range t.Templates() {
		if one.Tree != nil && one.Root != nil {
			stepIn(one.Root, one.Tree)
			one.Root.Nodes = append([]parse.Node{step(one.Root.Pos, one.Tree)}, one.Root.Nodes...)
		}
	}
}

// stepIn adds a step to each loop in a list.
func stepIn(list *parse.ListNode, tree *parse.Tree) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode:
			stepIn(n.List, tree)
			stepIn(n.ElseList, tree)
			n.List.Nodes = append([]parse.Node{step(n.Pos, tree)}, n.List.Nodes...)
		case *parse.IfNode:
			stepIn(n.List, tree)
			stepIn(n.ElseList, tree)
		case *parse.WithNode:
			stepIn(n.List, tree)
			stepIn(n.ElseList, tree)
		}
	}
}

// step returns a call of stepName, which prints nothing. Errors name pos.
func step(pos parse.Pos, tree *parse.Tree) parse.Node {
	name := parse.NewIdentifier(stepName).SetPos(pos).SetTree(tree)
	command := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{name}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Pipe: &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{command}}}
}

// withLimits returns a copy of a template that fails after maxSteps, or when any text grows beyond
// maxPrompt, even one that is not printed.
func withLimits(t *template.Template) (*template.Template, error) {
	t, err := t.Clone()
	if err != nil {
		return nil, err
	}
	steps, made := 0, 0
	grow := func(write func(...any) string) func(...any) (string, error) {
		return func(args ...any) (string, error) {
			text := write(args...)
			// Texts that were made and thrown away count, but less, because they take time only.
			if made += len(text); len(text) > maxPrompt || made > 64*maxPrompt {
				return "", errPromptSize
			}
			return text, nil
		}
	}
	return t.Funcs(template.FuncMap{
		stepName: func() (string, error) {
			if steps++; steps > maxSteps {
				return "", errPromptSteps
			}
			return "", nil
		},
		"print": grow(fmt.Sprint), "println": grow(fmt.Sprintln), "html": grow(template.HTMLEscaper), "js": grow(template.JSEscaper),
		"urlquery": grow(template.URLQueryEscaper), "fenced": func(text string) (string, error) { return grow(fmt.Sprint)(fencedText(text)) },
		"printf": func(format string, args ...any) (string, error) {
			longest := 1000
			if wide.MatchString(format) {
				longest = 1_000_000 // fmt's own limit
			}
			for _, a := range args {
				if text, ok := a.(string); ok {
					longest = max(longest, len(text))
				}
			}
			if strings.Count(format, "%")*longest > 64*maxPrompt {
				return "", errPromptSize
			}
			return grow(func(args ...any) string { return fmt.Sprintf(format, args...) })(args...)
		},
	}), nil
}

// wide matches verbs that print thousands of characters.
var wide = regexp.MustCompile(`%[^a-zA-Z%]*(?:\*|\d{4})`)
