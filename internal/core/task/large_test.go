package task

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// Documents that the decoder would take too long for are refused with a position. Of many problems,
// the first are reported.
func TestLargeConfigs(t *testing.T) {
	repeat := func(n int, text string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(text, "%d", fmt.Sprint(i)))
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		text string
		want string // the beginning of the only error, after the directory; "" if there is none
	}{
		"keys":                     {"version = \"1.0\"\n" + repeat(50_000, "k%d = 1\n"), "task.toml:5001: has more than 5000 keys"},
		"keys of a table":          {"[metadata]\n" + repeat(50_000, "k%d = 1\n"), "task.toml:5001: has more than 5000 keys"},
		"tables":                   {repeat(50_000, "[metadata.t%d]\n"), "task.toml:2501: has more than 5000 keys"},
		"keys in a line":           {"x = 1\nmetadata = {" + repeat(50_000, "k%d = 1, ") + "z = 1}\n", "task.toml:2: has more than 5000 keys"},
		"keys in tables in a list": {"x = [" + repeat(50_000, "{a = 1}, ") + "]\n", "task.toml:1: has more than 5000 keys"},
		"dotted keys":              {repeat(10_000, "a.b%d.c = 1\n"), "task.toml:1667: has more than 5000 keys"},
		"a long list":              {"[metadata]\nx = [" + repeat(100_000, "%d, ") + "]\n", ""},
		"a thousand keys":          {"version = \"1.0\"\n[metadata]\n" + repeat(1000, "k%d = 1\n"), ""},
		"invalid syntax":           {repeat(10, "k%d = 1\n") + "=", "task.toml:11:1: "},
	} {
		dir := newTask(t, map[string]string{"task.toml": c.text})
		list := Load(dir).Problems.Errors()
		if c.want == "" && len(list) > 0 || c.want != "" && (len(list) != 1 || !strings.HasPrefix(strings.TrimPrefix(list[0].String(), dir+"/"), c.want)) {
			t.Errorf("%s: %v, want %q", name, list, c.want)
		}
	}
	dir := newTask(t, map[string]string{"task.toml": "[environment]\nnetwork = \"allowlist\"\nallowed_hosts = [" + repeat(100_000, "%d, ") + "]\n"})
	list := Load(dir).Problems.Errors()
	if len(list) != fields.MaxProblems+1 || !slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Message == "and 99900 more of this kind" }) {
		t.Errorf("%d errors, the first is %v", len(list), list[0])
	}
}
