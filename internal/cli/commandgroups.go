package cli

import "github.com/spf13/cobra"

// commandGroups are the headings below which help lists the commands, in their order.
var commandGroups = []struct {
	title    string
	commands []string
}{
	{"Run", []string{"run", "plan", "resume", "merge", "shell"}},
	{"Look", []string{"ls", "show", "view", "report", "diff", "compare", "history", "export"}},
	{"Prove", []string{"validate", "verify", "rejudge", "judges"}},
	{"Set up", []string{"init", "new", "datasets", "agents", "cache", "clean", "schema", "completion", "help", "version"}},
}

// groupCommands makes help list the commands below headings.
func groupCommands(root *cobra.Command) {
	for _, group := range commandGroups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, name := range group.commands {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = group.title
				}
			}
		}
	}
	root.SetHelpCommandGroupID("Set up")
	root.SetCompletionCommandGroupID("Set up")
}
