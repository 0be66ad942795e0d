package cli

import (
	"context"
	"testing"
)

func TestEveryCommandHasAHeading(t *testing.T) {
	root := newInvocation(context.Background(), System()).root()
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && !cmd.Hidden {
			t.Errorf("%s: help lists it below no heading: add it to commandGroups", cmd.CommandPath())
		}
	}
}
