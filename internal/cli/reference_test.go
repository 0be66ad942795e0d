package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/action"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/providers"
)

// references are the tables in docs that are generated from the code, by the names in their
// markers.
var references = map[string]func(*testing.T) string{
	"job-file":            func(t *testing.T) string { return keyTables(t, jobSchema(t), "gate", "judge_agents") },
	"gate":                func(t *testing.T) string { return keyTables(t, gateSchema(t)) },
	"task":                func(t *testing.T) string { return keyTables(t, taskSchema(t)) },
	"commands":            commandTable,
	"exit-codes":          exitCodeTables,
	"flags":               flagTables,
	"rules":               lintRuleTable,
	"error-types":         errorTypeTable,
	"presets":             presetTable,
	"action-inputs":       actionInputTable,
	"action-outputs":      func(t *testing.T) string { return outputTable(readAction(t, "action.yml").Outputs) },
	"setup-inputs":        func(t *testing.T) string { return inputTable(readAction(t, "setup/action.yml").Inputs) },
	"setup-outputs":       func(t *testing.T) string { return outputTable(readAction(t, "setup/action.yml").Outputs) },
	"workflow-inputs":     func(t *testing.T) string { return inputTable(readWorkflow(t).Inputs, readWorkflow(t).Secrets) },
	"workflow-outputs":    func(t *testing.T) string { return outputTable(readWorkflow(t).Outputs) },
	"provider-docker":     func(t *testing.T) string { return providerTable(t, "docker") },
	"provider-sandbox":    func(t *testing.T) string { return providerTable(t, "sandbox") },
	"provider-kubernetes": func(t *testing.T) string { return providerTable(t, "kubernetes") },
	"provider-modal":      func(t *testing.T) string { return providerTable(t, "modal") },
	"provider-fly":        func(t *testing.T) string { return providerTable(t, "fly") },
	"provider-apple":      func(t *testing.T) string { return providerTable(t, "apple") },
}

var marked = regexp.MustCompile(`(?s)(<!-- begin generated: ([a-z-]+) -->\n).*?(<!-- end generated: ([a-z-]+) -->)`)

// TestReference holds the generated tables in docs against the code. -update rewrites them.
func TestReference(t *testing.T) {
	top := filepath.Join("..", "..")
	seen := map[string]string{}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found := marked.FindAllSubmatch(page, -1)
		if n := bytes.Count(page, []byte("<!-- begin generated")); n != len(found) || n != bytes.Count(page, []byte("<!-- end generated")) {
			t.Errorf("%s: a marker of a generated table has no counterpart", path)
			return nil
		}
		var stale []string
		want := marked.ReplaceAllFunc(page, func(section []byte) []byte {
			m := marked.FindSubmatch(section)
			name := string(m[2])
			reference, ok := references[name]
			if !ok || name != string(m[4]) || seen[name] != "" {
				t.Errorf("%s: markers of the generated table %s: unknown, used twice, or not a pair", path, name)
				return section
			}
			seen[name] = path
			text := slices.Concat(m[1], []byte(reference(t)), m[3])
			if !bytes.Equal(text, section) {
				stale = append(stale, name)
			}
			return text
		})
		if len(stale) > 0 && *update {
			return os.WriteFile(path, want, 0o644)
		}
		for _, name := range stale {
			t.Errorf("%s: the generated table %s is out of date: run go test ./internal/cli -run TestReference -update", strings.TrimPrefix(path, top+"/"), name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range references {
		if seen[name] == "" {
			t.Errorf("no page has the generated table %s", name)
		}
	}
}

// markdownTable returns a table. Cells that begin and end with a backtick are code; others are
// text.
func markdownTable(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cellText(cell)
		}
		line(cells)
	}
	return b.String()
}

var special = strings.NewReplacer("*", `\*`, "<", "&lt;", "|", `\|`, "\n", " ")

// cellText escapes what Markdown would read in a text. Text between backticks is code, in which
// only | is special.
func cellText(cell string) string {
	parts := strings.Split(strings.TrimSpace(cell), "`")
	for i := range parts {
		if i%2 == 0 && i < len(parts) {
			parts[i] = special.Replace(parts[i])
		} else {
			parts[i] = strings.ReplaceAll(parts[i], "|", `\|`)
		}
	}
	return strings.Join(parts, "`")
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// sentence returns text with a capital letter at its beginning and a full stop at its end.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	first, _, _ := strings.Cut(text, " ")
	if lower := strings.Trim(first, "abcdefghijklmnopqrstuvwxyz,:"); lower == "" && !strings.HasSuffix(first, ":") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// keySchema is what the tables use of a JSON Schema.
type keySchema struct {
	Type        any                  `json:"type"`
	Description string               `json:"description"`
	Default     any                  `json:"default"`
	Enum        []any                `json:"enum"`
	Properties  map[string]keySchema `json:"properties"`
	Required    []string             `json:"required"`
	Items       *keySchema           `json:"items"`
	// AdditionalProperties is false where other keys are errors.
	AdditionalProperties *valueSchema `json:"additionalProperties"`
	AnyOf                []keySchema  `json:"anyOf"`
	Minimum              *float64     `json:"minimum"`
	Maximum              *float64     `json:"maximum"`
	Above                *float64     `json:"exclusiveMinimum"`
}

// valueSchema is the schema of the values of a mapping with any keys, or false.
type valueSchema keySchema

func (s *valueSchema) UnmarshalJSON(data []byte) error {
	if string(data) == "false" {
		return nil
	}
	return json.Unmarshal(data, (*keySchema)(s))
}

func readSchema(t *testing.T, data []byte, err error) keySchema {
	t.Helper()
	var s keySchema
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func jobSchema(t *testing.T) keySchema {
	data, err := config.Schema()
	return readSchema(t, data, err)
}

func gateSchema(t *testing.T) keySchema { return jobSchema(t).Properties["gate"] }

func taskSchema(t *testing.T) keySchema {
	data, err := task.Schema()
	return readSchema(t, data, err)
}

// object returns the schema of the mapping in s: s itself, or what its list holds. suffix is "[]"
// for a list.
func (s keySchema) object() (object keySchema, suffix string, ok bool) {
	if len(s.Properties) > 0 {
		return s, "", true
	}
	if s.AdditionalProperties != nil && len(s.AdditionalProperties.Properties) > 0 {
		return keySchema(*s.AdditionalProperties), ".NAME", true
	}
	if s.Items != nil {
		for _, item := range append([]keySchema{*s.Items}, s.Items.AnyOf...) {
			if len(item.Properties) > 0 {
				return item, "[]", true
			}
		}
	}
	return keySchema{}, "", false
}

// keyTables returns a table for the keys of s, and one for each mapping in it, whose heading is its
// path.
func keyTables(t *testing.T, s keySchema, except ...string) string {
	var b strings.Builder
	var tables func(path string, s keySchema)
	tables = func(path string, s keySchema) {
		var rows [][]string
		var inner []string
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[key]
			if _, _, ok := p.object(); ok && !(path == "" && slices.Contains(except, key)) {
				inner = append(inner, key)
			}
			doc := p.Description
			if doc == "" {
				t.Errorf("%s has no description", strings.TrimPrefix(path+"."+key, "."))
			}
			if slices.Contains(s.Required, key) {
				doc = strings.TrimSpace(doc + " Required.")
			}
			rows = append(rows, []string{code(key), p.values(), p.standard(), doc})
		}
		if path != "" {
			fmt.Fprintf(&b, "\n**`%s`**\n\n", path)
		}
		b.WriteString(markdownTable([]string{"key", "value", "default", "meaning"}, rows))
		for _, key := range inner {
			object, suffix, _ := s.Properties[key].object()
			tables(strings.TrimPrefix(path+"."+key+suffix, "."), object)
		}
	}
	tables("", s)
	return b.String()
}

// values says in a few words which values a key may have.
func (s keySchema) values() string {
	if len(s.Enum) > 0 {
		var words []string
		for _, v := range s.Enum {
			if text, ok := v.(string); ok && text != "" {
				words = append(words, code(text))
			}
		}
		return strings.Join(words, ", ")
	}
	var types []string
	switch v := s.Type.(type) {
	case string:
		types = []string{v}
	case []any:
		for _, name := range v {
			types = append(types, fmt.Sprint(name))
		}
	}
	types = slices.DeleteFunc(types, func(name string) bool { return name == "null" })
	names := map[string]string{"array": "list", "object": "mapping", "string": "text", "integer": "whole number", "boolean": "true, false"}
	for i, name := range types {
		types[i] = cmp.Or(names[name], name)
	}
	slices.Sort(types)
	text := strings.Join(types, " or ")
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		text += fmt.Sprintf(", %v to %v", plainNumber(*s.Minimum), plainNumber(*s.Maximum))
	case s.Minimum != nil:
		text += fmt.Sprintf(", at least %v", plainNumber(*s.Minimum))
	case s.Above != nil && s.Maximum != nil:
		text += fmt.Sprintf(", above %v, at most %v", plainNumber(*s.Above), plainNumber(*s.Maximum))
	case s.Above != nil:
		text += fmt.Sprintf(", above %v", plainNumber(*s.Above))
	}
	return text
}

func plainNumber(n float64) string {
	if n >= 1<<20 && math.Mod(n, 1<<20) == 0 {
		return fmt.Sprintf("%.0fMi", n/(1<<20))
	}
	text := fmt.Sprintf("%.4f", n)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

func (s keySchema) standard() string {
	switch v := s.Default.(type) {
	case nil:
		return ""
	case string:
		return code(v)
	case float64:
		return code(plainNumber(v))
	default:
		text, _ := json.Marshal(v)
		return code(string(text))
	}
}

// userCommands returns all commands that users run, in the order of help.
func userCommands() []*cobra.Command {
	var out []*cobra.Command
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			out = append(out, sub)
			add(sub)
		}
	}
	root := newRoot(command.New(context.Background(), System(), "", ""))
	root.InitDefaultCompletionCmd()
	add(root)
	return out
}

// useOf returns the command's line of use, as in "rollout cache prune".
func useOf(c *cobra.Command) string {
	_, arguments, _ := strings.Cut(c.Use, " ")
	return strings.TrimSpace(c.CommandPath() + " " + arguments)
}

func commandTable(t *testing.T) string {
	var rows [][]string
	for _, c := range userCommands() {
		if c.Parent().Name() == "completion" || c.HasSubCommands() && c.Name() != "completion" {
			continue
		}
		if c.Short == "" {
			t.Errorf("%s has no short description", c.CommandPath())
		}
		use := useOf(c)
		if c.Name() == "completion" {
			use += " SHELL"
		}
		rows = append(rows, []string{code(use), sentence(c.Short)})
	}
	return markdownTable([]string{"command", "what it does"}, rows)
}

// gateFlag reports whether a flag stands for a key of gate. These keys have a separate table.
func gateFlag(name string) bool {
	return slices.ContainsFunc(config.GateKeys(), func(k config.GateKey) bool { return k.Flag() == name })
}

func flagTables(t *testing.T) string {
	var b strings.Builder
	for _, c := range userCommands() {
		if c.Name() == "completion" || c.Parent().Name() == "completion" {
			continue
		}
		gated := false
		var rows [][]string
		row := func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			if gateFlag(f.Name) {
				gated = true
				return
			}
			if f.Usage == "" {
				t.Errorf("%s --%s has no description", c.CommandPath(), f.Name)
			}
			standard := f.DefValue
			if standard == "false" || standard == "[]" || standard == "0" {
				standard = ""
			}
			kind, usage := pflag.UnquoteUsage(f)
			kind = strings.ToUpper(cmp.Or(map[string]string{"string": "text", "stringArray": "text", "strings": "text,…", "int": "n"}[kind], kind))
			rows = append(rows, []string{code(strings.TrimSpace("--" + f.Name + " " + kind)), code(standard), sentence(usage)})
		}
		groups := groupsOf(c)
		if groups == nil {
			groups = []flagsBelow{{flags: c.LocalFlags()}}
		}
		var tables []string
		for _, g := range groups {
			rows = nil
			g.flags.VisitAll(row)
			if len(rows) == 0 {
				continue
			}
			table := markdownTable([]string{"flag", "default", "meaning"}, rows)
			if g.heading != "" {
				table = g.heading + ":\n\n" + table
			}
			tables = append(tables, table)
		}
		if len(tables) == 0 {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n%s", c.CommandPath(), strings.Join(tables, "\n"))
		switch {
		case gated && c.Flags().Lookup("max-broken-tasks") == nil:
			b.WriteString("\nThe [keys of `gate`](gate.md#reference) that decide which trials run are flags of this command, too: `--stop-early` and `--confirm 4`.\n")
		case gated:
			b.WriteString("\nThe [keys of `gate`](gate.md#reference) are flags of this command, too, such as `--max-broken-tasks 0`.\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var exitCodeLine = regexp.MustCompile(`(?m)^  (\d+) +(.+)$`)

// presetTable returns the table of agents that are ready to run.
func presetTable(*testing.T) string {
	var b strings.Builder
	b.WriteString("| preset | version | APIs of its models | its own keys | MCP | skills | tried |\n|---|---|---|---|---|---|---|\n")
	mark := map[bool]string{true: "yes"}
	for _, name := range presets.Names() {
		p, _ := presets.Get(name)
		apis := strings.Join(p.APIs, ", ")
		if apis == "" {
			apis = "none: " + p.NoGateway
		}
		fmt.Fprintf(&b, "| [`%s`](%s) | %s | %s | %s | %s | %s | %s |\n", name, cmp.Or(p.Homepage, "#an-agent-without-an-installation"), p.Version, apis,
			strings.Join(p.Keys, ", "), mark[p.MCP], mark[p.Skills != ""], cmp.Or(p.Tried, "not run"))
	}
	return b.String()
}

// exitCodeTables returns a table for each group of commands whose help has the same exit codes.
func exitCodeTables(t *testing.T) string {
	var texts []string
	names := map[string][]string{}
	for _, c := range userCommands() {
		if c.Parent().HasParent() || c.Name() == "completion" {
			continue
		}
		_, codes, ok := strings.Cut(c.Long, "Exit codes:\n")
		if !ok {
			t.Errorf("the help of %s has no exit codes", c.CommandPath())
		}
		if names[codes] == nil {
			texts = append(texts, codes)
		}
		names[codes] = append(names[codes], code(c.Name()))
	}
	slices.SortStableFunc(texts, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var b strings.Builder
	for _, codes := range texts {
		fmt.Fprintf(&b, "%s:\n\n", strings.Join(names[codes], ", "))
		var rows [][]string
		for _, m := range exitCodeLine.FindAllStringSubmatch(codes, -1) {
			rows = append(rows, []string{m[1], m[2]})
		}
		if len(rows) == 0 {
			t.Errorf("no exit codes in %q", codes)
		}
		b.WriteString(markdownTable([]string{"code", "meaning"}, rows) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func lintRuleTable(*testing.T) string {
	var rows [][]string
	for _, r := range prove.Rules {
		off := "yes"
		if r.Always {
			off = "no"
		}
		rows = append(rows, []string{code(r.ID), sentence(r.Doc), off})
	}
	return markdownTable([]string{"rule", "what it finds", "can be switched off"}, rows)
}

// errorTypeTable takes the meaning of each type from the comment of its constant.
func errorTypeTable(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "core", "result", "trial.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{} // by value
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Type == nil || v.Doc == nil || len(v.Values) != 1 {
			return true
		}
		literal, ok := v.Values[0].(*ast.BasicLit)
		if kind, isName := v.Type.(*ast.Ident); ok && isName && kind.Name == "ErrorType" {
			_, meaning, _ := strings.Cut(v.Doc.Text(), ": ")
			docs[strings.Trim(literal.Value, `"`)] = strings.Join(strings.Fields(meaning), " ")
		}
		return true
	})
	var rows [][]string
	for _, e := range result.ErrorTypes {
		doc := docs[string(e)]
		if doc == "" {
			t.Errorf("the constant of %s has no comment of the form // Name: meaning", e)
		}
		rows = append(rows, []string{code(string(e)), sentence(doc), string(e.Fault())})
	}
	return markdownTable([]string{"type", "what happened", "whose fault"}, rows)
}

// parameter is an input, an output or a secret of an action or a workflow.
type parameter struct {
	Name        string `yaml:"-"`
	Description string
	Default     any
	Required    bool
}

func (p parameter) standard() string {
	if p.Default == nil {
		return ""
	}
	return code(fmt.Sprint(p.Default))
}

// parameters is a mapping of them, in the file's order.
type parameters []parameter

func (p *parameters) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		one := parameter{Name: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&one); err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}

type actionFile struct {
	Inputs, Outputs, Secrets parameters
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readAction(t *testing.T, path string) actionFile {
	var f actionFile
	readYAML(t, path, &f)
	return f
}

func readWorkflow(t *testing.T) actionFile {
	var f struct {
		On struct {
			Call actionFile `yaml:"workflow_call"`
		}
	}
	readYAML(t, ".github/workflows/rollout.yml", &f)
	return f.On.Call
}

func inputTable(lists ...parameters) string {
	var rows [][]string
	for i, list := range lists {
		for _, p := range list {
			name := code(p.Name)
			if i > 0 {
				name += " (secret)"
			}
			doc := sentence(strings.TrimPrefix(p.Description, "gate: "))
			if p.Required {
				doc += " Required."
			}
			rows = append(rows, []string{name, p.standard(), doc})
		}
	}
	return markdownTable([]string{"input", "default", "meaning"}, rows)
}

// actionInputTable has a column for the commands that an input is for, with which its description
// begins.
func actionInputTable(t *testing.T) string {
	stated := map[string]parameter{}
	for _, p := range readAction(t, "action.yml").Inputs {
		stated[p.Name] = p
	}
	var rows [][]string
	for _, in := range action.Inputs() {
		doc, commands := stated[in.Name].Description, "all"
		if len(in.Commands) < len(action.Commands()) {
			var names []string
			for _, c := range in.Commands {
				names = append(names, code(c))
			}
			commands = strings.Join(names, ", ")
			doc = strings.TrimPrefix(doc, strings.Join(in.Commands, ", ")+": ")
		}
		rows = append(rows, []string{code(in.Name), commands, stated[in.Name].standard(), sentence(strings.TrimPrefix(doc, "gate: "))})
	}
	return markdownTable([]string{"input", "commands", "default", "meaning"}, rows)
}

func outputTable(list parameters) string {
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{code(p.Name), sentence(p.Description)})
	}
	return markdownTable([]string{"output", "meaning"}, rows)
}

func providerTable(t *testing.T, name string) string {
	provider, ok := providers.All.Find(name)
	if !ok {
		t.Fatalf("there is no provider %s", name)
	}
	return configTable(provider.Keys)
}

func configTable(keys []environment.ConfigKey) string {
	var rows [][]string
	for _, k := range keys {
		rows = append(rows, []string{code(k.Name), code(k.Default), k.Doc})
	}
	return markdownTable([]string{"key", "default", "meaning"}, rows)
}
