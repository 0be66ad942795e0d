package cli

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestFlagsHaveHeadings(t *testing.T) {
	many := 0
	for _, c := range userCommands() {
		groups := groupsOf(c)
		if groups != nil {
			many++
		}
		listed := map[string]bool{}
		for _, g := range groups {
			g.flags.VisitAll(func(f *pflag.Flag) {
				listed[f.Name] = true
				if common := c.Name() == "run" || c.Name() == "resume"; common && g.heading == flagsOwn {
					t.Errorf("%s --%s has no heading", c.CommandPath(), f.Name)
				}
			})
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if groups != nil && !listed[f.Name] {
				t.Errorf("%s --%s has a heading that help does not know", c.CommandPath(), f.Name)
			}
		})
	}
	if many < 3 {
		t.Errorf("%d commands have many flags", many)
	}
}
