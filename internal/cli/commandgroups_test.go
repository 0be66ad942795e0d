package cli

import (
	"context"
	"path"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/cli/command"
)

func TestEveryCommandHasAHeading(t *testing.T) {
	root := newRoot(command.New(context.Background(), System(), "", ""))
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && !cmd.Hidden {
			t.Errorf("%s: help lists it below no heading: add it to commandGroups", cmd.CommandPath())
		}
	}
}

// Whoever looks for the code of a command finds it by the heading in the help.
func TestTheCommandsOfAHeadingAreAPackage(t *testing.T) {
	for _, group := range commandGroups {
		want := strings.ToLower(strings.ReplaceAll(group.title, " ", ""))
		for _, newCommand := range group.commands {
			name := path.Base(runtime.FuncForPC(reflect.ValueOf(newCommand).Pointer()).Name())
			if in, _, _ := strings.Cut(name, "."); in != want {
				t.Errorf("%s is below the heading %q, whose package is %s", name, group.title, want)
			}
		}
	}
}
