package cli

import (
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/look"
	"github.com/org/rollout-action/internal/cli/prove"
	"github.com/org/rollout-action/internal/cli/run"
	"github.com/org/rollout-action/internal/cli/setup"
)

// constructor returns a command.
type constructor = func(*command.Invocation) *cobra.Command

// commandGroups are the headings below which help lists the commands, in their order, and the
// commands, one a line. The commands of a heading are a package.
var commandGroups = []struct {
	title    string
	commands []constructor
}{
	{"Run", []constructor{
		run.NewRunCommand,
		run.NewPlanCommand,
		run.NewResumeCommand,
		run.NewMergeCommand,
		run.NewShellCommand,
	}},
	{"Look", []constructor{
		look.NewLsCommand,
		look.NewShowCommand,
		look.NewViewCommand,
		look.NewReportCommand,
		look.NewDiffCommand,
		look.NewCompareCommand,
		look.NewHistoryCommand,
		look.NewExportCommand,
	}},
	{"Prove", []constructor{
		prove.NewMineCommand,
		prove.NewValidateCommand,
		prove.NewVerifyCommand,
		prove.NewRejudgeCommand,
		prove.NewJudgesCommand,
	}},
	{groupSetUp, []constructor{
		setup.NewInitCommand,
		setup.NewNewCommand,
		setup.NewImportCommand,
		setup.NewDoctorCommand,
		setup.NewDatasetsCommand,
		setup.NewAgentsCommand,
		setup.NewCacheCommand,
		setup.NewCleanCommand,
		setup.NewSchemaCommand,
		setup.NewVersionCommand,
	}},
}

// groupSetUp is the heading that also has the commands of the library: completion and help.
const groupSetUp = "Set up"

// addCommands adds all commands to the root command.
func addCommands(root *cobra.Command, v *command.Invocation) {
	for _, group := range commandGroups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, newCommand := range group.commands {
			cmd := newCommand(v)
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID(groupSetUp)
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Args = func(_ *cobra.Command, args []string) error { return knownTopic(root, args) }
		}
	}
	root.SetCompletionCommandGroupID(groupSetUp)
	root.AddCommand(newActionCommand(v)) // which is hidden
}
