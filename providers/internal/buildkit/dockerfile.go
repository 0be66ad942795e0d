package buildkit

import (
	"bytes"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// BaseImages returns the images that a Dockerfile builds upon, as it names them. What cannot be
// parsed has none: saying so is the builder's business.
func BaseImages(dockerfile []byte, args map[string]string) []string {
	parsed, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return nil
	}
	var (
		refs   []string
		env    []string // KEY=value, of the ARGs before the first FROM
		stages = map[string]bool{"scratch": true}
		lex    = shell.NewLex(parsed.EscapeToken)
		expand = func(word string) string {
			text, _, err := lex.ProcessWord(word, shell.EnvsFromSlice(env))
			if err != nil {
				return ""
			}
			return text
		}
	)
	for _, node := range parsed.AST.Children {
		if node.Next == nil {
			continue
		}
		switch strings.ToLower(node.Value) {
		case "arg":
			if len(stages) > 1 || len(refs) > 0 {
				continue
			}
			key, value, _ := strings.Cut(node.Next.Value, "=")
			if given, ok := args[key]; ok {
				value = given
			}
			env = append(env, key+"="+expand(value))
		case "from":
			if ref := expand(node.Next.Value); ref != "" && !stages[strings.ToLower(ref)] {
				refs = append(refs, ref)
			}
			if as := node.Next.Next; as != nil && as.Next != nil {
				stages[strings.ToLower(as.Next.Value)] = true
			}
		}
	}
	return refs
}

// WithoutSyntax removes a Dockerfile's "# syntax=" line, keeping the number of lines, and returns
// the frontend image that it names; "" if there is no such line.
func WithoutSyntax(dockerfile []byte) ([]byte, string) {
	ref, _, ranges, found := parser.DetectSyntax(dockerfile)
	if !found || len(ranges) == 0 {
		return dockerfile, ""
	}
	split := bytes.SplitAfter(dockerfile, []byte("\n"))
	at := ranges[0].Start.Line - 1
	if at < 0 || at >= len(split) {
		return dockerfile, ""
	}
	split[at] = []byte("#\n")
	return bytes.Join(split, nil), ref
}
