package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// repeat repeats text n times, with the number for each %d, up to the maximum size of a job file.
func repeat(n int, text string) string {
	var b strings.Builder
	for i := range n {
		line := strings.ReplaceAll(text, "%d", fmt.Sprint(i))
		if b.Len()+len(line) > maxSize-1000 {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// The time to load a file grows with its size only. Of many problems the first are reported, with
// the number of the others. (If it were quadratic, this would take minutes.)
func TestLargeFiles(t *testing.T) {
	const rest = "environment: {type: docker}\ndatasets: [{path: .}]\n"
	oracle := "agents: [{name: oracle}]\n" + rest
	for name, c := range map[string]struct {
		file, text string
		want       int // errors; 0: the file is right
	}{
		"unknown keys":          {"job.yaml", oracle + repeat(30_000, "k%d: 1\n"), fields.MaxProblems + 1},
		"unknown keys in JSON":  {"job.json", `{"agents":[{"name":"oracle"}],"datasets":[{"path":"."}]` + repeat(30_000, `,"k%d":1`) + "}", fields.MaxProblems + 1},
		"keys that are aliases": {"job.yaml", oracle + "k: &k 1\n" + repeat(30_000, "k%d: *k\n"), fields.MaxProblems + 1},
		"a repeated key":        {"job.yaml", oracle + repeat(30_000, "k: 1\n"), fields.MaxProblems + 1},
		"variables":             {"job.yaml", "agents:\n- name: a\n  execute: x\n  env:\n" + repeat(20_000, "    K%d: v\n") + rest, 0},
		"wrong variables":       {"job.yaml", "agents:\n- name: a\n  execute: x\n  env:\n" + repeat(20_000, "    'K %d': v\n") + rest, fields.MaxProblems + 1},
		"agents":                {"job.yaml", "agents:\n" + repeat(10_000, "- {name: a%d, execute: x}\n") + rest, 0},
		"wrong agents":          {"job.yaml", "agents:\n" + repeat(10_000, "- {nam: a%d}\n") + rest, fields.MaxProblems + 1},
		"datasets":              {"job.yaml", "agents: [{name: oracle}]\ndatasets:\n" + repeat(10_000, "- {path: ., name: d%d}\n"), 0},
		"missing datasets":      {"job.yaml", "agents: [{name: oracle}]\ndatasets:\n" + repeat(10_000, "- {path: q%d}\n"), fields.MaxProblems + 1},
		"tasks":                 {"job.yaml", "agents: [{name: oracle}]\ntasks:\n" + repeat(20_000, "- t%d\n"), 0},
		"groups of the gate":    {"job.yaml", oracle + "gate:\n  groups:\n" + repeat(1001, "  - {agent: oracle, min_pass_rate: 0.5}\n"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, c.file)
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(file, Options{Dir: dir})
			var list diag.List
			if errors.As(err, &list); len(list.Errors()) != c.want {
				t.Errorf("%d errors, want %d: %.200v", len(list.Errors()), c.want, err)
			}
			if c.want > fields.MaxProblems && !strings.Contains(list[len(list)-1].Message, "more of this kind") {
				t.Errorf("the last is %v", list[len(list)-1])
			}
		})
	}
}

// A problem with the tenth entry is no problem with the first.
func TestBadBelowIsNotAPrefix(t *testing.T) {
	d := newDecoder(nil, new(fields.Problems))
	d.Spoil(fields.Path{"datasets", "10", "path"})
	for path, want := range map[string]bool{"datasets": true, "datasets[10]": true, "datasets[10].path": true, "datasets[1]": false, "data": false} {
		var p fields.Path
		for _, part := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("[].", r) }) {
			p = append(p, part)
		}
		if got := d.BadBelow(p); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
}
