package setup

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/shell"
)

// NewAgentsCommand returns the command agents.
func NewAgentsCommand(v *command.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Look at the agents that are ready to run",
		Long: `Look at the presets: agents that are ready to run. In a job file, preset: NAME stands for the scripts that install
and run one.
` + command.DoneCodes,
		Example: `  rollout agents ls
  rollout agents show claude-code`,
		Args: command.UnknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &command.Failure{Code: command.ExitUsage}
		},
	}
	cmd.AddCommand(newAgentsLsCommand(v), newAgentsShowCommand(v))
	return cmd
}

func newAgentsLsCommand(v *command.Invocation) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the agents that are ready to run",
		Long: `List the presets with their default versions and the APIs of the models that they can use through Rollout. An agent
without one runs with its own key.
` + command.DoneCodes,
		Example: `  rollout agents ls
  rollout agents ls --json`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var all []presets.Preset
			for _, name := range presets.Names() {
				p, _ := presets.Get(name)
				all = append(all, p)
			}
			if asJSON {
				return v.PrintJSON(all)
			}
			return printPresets(v.Stdout, all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: name, version, about, apis and more")
	return cmd
}

// printPresets prints presets as text.
func printPresets(out io.Writer, all []presets.Preset) error {
	w := tables.New(out)
	w.Row("PRESET", "VERSION", "APIS", "ABOUT")
	for _, p := range all {
		w.Row(p.Name, p.Version, cmp.Or(strings.Join(p.APIs, " "), "–"), p.About)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s. rollout agents show NAME prints one, ready to copy and change\n", plural.Count(len(all), "preset"))
	return err
}

func newAgentsShowCommand(v *command.Invocation) *cobra.Command {
	var version string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a preset as an agent with scripts",
		Long: `Print a preset as an entry of agents in a job file, with the scripts that install and run it, ready to copy and change.
` + command.DoneCodes,
		Example: `  rollout agents show claude-code
  rollout agents show codex --version 0.160.0`,
		Args: command.OneArg("the name of a preset"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return presets.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, ok := presets.Get(args[0])
			if !ok {
				return command.Usagef("there is no preset %q (%s)", args[0], cmp.Or(diag.DidYouMean(args[0], presets.Names()), "rollout agents ls has their names"))
			}
			p.Version = cmp.Or(version, p.Version)
			if asJSON {
				return v.PrintJSON(struct {
					presets.Preset
					Install string `json:"install"`
					Execute string `json:"execute"`
				}{p, p.Install(p.Version), p.Execute(nil)})
			}
			_, err := io.WriteString(v.Stdout, shownPreset(p))
			return err
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "install this `version` (default: the preset's)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the preset's data, and its scripts install and execute")
	return cmd
}

// shownPreset returns a preset as an entry of a job file's agents.
func shownPreset(p presets.Preset) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s %s\n", p.Name, p.About, p.Homepage)
	switch {
	case len(p.APIs) > 0:
		fmt.Fprintf(&b, "# It can use models with these APIs: %s.\n", strings.Join(p.APIs, ", "))
	default:
		fmt.Fprintf(&b, "# It cannot use a model of the job: %s.\n", p.NoGateway)
	}
	if len(p.Keys) > 0 {
		fmt.Fprintf(&b, "# Without a model of the job it reads one of these variables: %s.\n", strings.Join(p.Keys, ", "))
	}
	for _, remark := range p.Remarks {
		fmt.Fprintf(&b, "# %s\n", remark)
	}
	fmt.Fprintf(&b, "agents:\n  - name: %s\n", p.Name)
	install, execute := p.Install(p.Version), p.Execute(nil)
	if execute == "" { // nothing to copy
		fmt.Fprintf(&b, "    preset: %s\n    version: %q\n    model: NAME\n", p.Name, p.Version)
		b.WriteString("\n# What the model is told, before the instruction of the task:\n#\n")
		for line := range strings.Lines(shell.SystemPrompt + "\n") {
			b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
		}
		fmt.Fprintf(&b, "#\n# Its tool %s: %s\n", shell.ToolName, shell.ToolDescription)
	}
	for _, script := range []struct{ key, text string }{{"install", install}, {"execute", execute}} {
		if script.text == "" {
			continue
		}
		if script.key == "install" {
			b.WriteString("    cache_install: true\n")
		}
		fmt.Fprintf(&b, "    %s: |\n", script.key)
		for line := range strings.Lines(script.text) {
			if line != "\n" {
				b.WriteString("      ")
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
