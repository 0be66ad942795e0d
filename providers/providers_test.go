package providers_test

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers"
)

// Keys are what pages list; Check is what decides.
func TestKeysAreThoseThatCheckKnows(t *testing.T) {
	for _, p := range providers.All {
		t.Run(p.Name, func(t *testing.T) {
			for _, k := range p.Keys {
				if k.Name == "" || k.Doc == "" {
					t.Errorf("%+v lacks a name or a description", k)
				}
				for _, problem := range p.Check(map[string]any{k.Name: struct{}{}}) {
					if problem.Message == "unknown key" {
						t.Errorf("%s is listed, but Check does not know it", k.Name)
					}
				}
			}
			if len(p.Keys) == 0 {
				return
			}
			problems := p.Check(map[string]any{"no-such-key": 1})
			if len(problems) != 1 || problems[0].Message != "unknown key" || !slices.Equal(problems[0].Known, environment.ConfigKeyNames(p.Keys)) {
				t.Errorf("an unknown key gives %+v", problems)
			}
		})
	}
}
