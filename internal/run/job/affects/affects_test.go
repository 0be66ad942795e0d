package affects

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial"
)

func specs() []trial.Spec {
	var out []trial.Spec
	for _, agent := range []string{"a", "b"} {
		for _, name := range []string{"pdf-one", "pdf-two", "sheet"} {
			t := &task.Task{Name: name}
			t.Config.Metadata = map[string]any{"skill": name[:3]}
			for n := 1; n <= 2; n++ {
				out = append(out, trial.Spec{Key: result.Key{Agent: agent, Dataset: "d", Task: name, Attempt: n}, Task: t})
			}
		}
	}
	return out
}

func TestFirstRuleOfEachFileCounts(t *testing.T) {
	none, pdf, b := []string{}, []string{"pdf-*"}, []string{"b"}
	rules := []config.Affects{
		{Paths: []string{"docs/**", "**/*.md"}, Tasks: &none},
		{Paths: []string{"skills/pdf/**"}, Tasks: &pdf},
		{Paths: []string{"skills/{pdf,sheet}/**"}, Metadata: map[string]any{"skill": "she"}},
		{Paths: []string{"b/*"}, Tasks: &pdf, Agents: &b},
		{Paths: []string{"agents/**"}, Agents: &none},
	}
	for name, c := range map[string]struct {
		changed []string
		want    []string // of the first attempts
		nothing []string
	}{
		"no file":                  {},
		"documents":                {changed: []string{"docs/a/b.txt", "skills/pdf/x.md"}, nothing: []string{"docs/a/b.txt", "skills/pdf/x.md"}},
		"an empty list of agents":  {changed: []string{"agents/x"}, nothing: []string{"agents/x"}},
		"a skill":                  {changed: []string{"docs/x", "skills/pdf/a/b.py"}, want: []string{"a/pdf-one", "a/pdf-two", "b/pdf-one", "b/pdf-two"}, nothing: []string{"docs/x"}},
		"metadata":                 {changed: []string{"skills/sheet/x"}, want: []string{"a/sheet", "b/sheet"}},
		"tasks of an agent":        {changed: []string{"b/x"}, want: []string{"b/pdf-one", "b/pdf-two"}},
		"a star is one directory":  {changed: []string{"b/x/y"}, want: []string{"a/pdf-one", "a/pdf-two", "a/sheet", "b/pdf-one", "b/pdf-two", "b/sheet"}},
		"two skills":               {changed: []string{"b/x", "skills/sheet/x"}, want: []string{"a/sheet", "b/pdf-one", "b/pdf-two", "b/sheet"}},
		"a file without any entry": {changed: []string{"b/x", "go.mod"}, want: []string{"a/pdf-one", "a/pdf-two", "a/sheet", "b/pdf-one", "b/pdf-two", "b/sheet"}},
	} {
		s := Select(rules, c.changed, specs())
		var got []string
		for i, spec := range s.Affected {
			if spec.Key.Attempt == 1 {
				got = append(got, spec.Key.Agent+"/"+spec.Key.Task)
			}
			if r := s.Reasons[i]; r.Rule >= 0 && !rules[r.Rule].Matches(r.File) {
				t.Errorf("%s: %s runs because of %+v", name, spec.Key, r)
			}
		}
		record := s.Record("abc", len(c.changed))
		if !slices.Equal(got, c.want) || !slices.Equal(s.Nothing, c.nothing) || len(s.Affected)+len(s.Left) != 12 || record.Trials != len(s.Left) || record.Affected != len(s.Affected) || 2*len(record.Tasks) != len(s.Left) {
			t.Errorf("%s: %q run, %q run nothing, and %+v is left", name, got, s.Nothing, record)
		}
		for _, spec := range s.Left {
			if !record.Has(spec.Key) {
				t.Errorf("%s: %s is not recorded", name, spec.Key)
			}
		}
		for _, spec := range s.Affected {
			if record.Has(spec.Key) {
				t.Errorf("%s: %s is recorded", name, spec.Key)
			}
		}
	}
}
