package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/cli/flags"
)

// The headings of flags that have none.
const (
	flagsOther = "Other flags"
	flagsOwn   = "Flags" // those of one command alone, which come first
)

// flagHeadings are the headings in their order, each with what the description of a flag need not
// repeat below it.
var flagHeadings = []struct{ heading, prefix string }{
	{flags.ForSelection, ""}, {flags.ForTasks, "without a job file: "}, {flags.ForRunning, ""}, {flags.ForExisting, "with --resume: "}, {flags.ForProof, ""}, {flags.ForReports, ""},
	{flags.ForGate, "gate: "}, {flagsOther, ""},
}

// groupsOf returns a command's flags by heading, in their order; nil if it has too few to need
// headings.
func groupsOf(cmd *cobra.Command) (groups []flagsBelow) {
	sets, count := map[string]*pflag.FlagSet{}, 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		heading := cmp.Or(flags.HeadingOf(f), flagsOther)
		if sets[heading] == nil {
			sets[heading] = pflag.NewFlagSet(heading, pflag.ContinueOnError)
		}
		sets[heading].AddFlag(f)
		if !f.Hidden {
			count++
		}
	})
	const few = 15
	if count <= few {
		return nil
	}
	for _, h := range flagHeadings {
		if set := sets[h.heading]; set != nil && set.HasAvailableFlags() {
			groups = append(groups, flagsBelow{h.heading, h.prefix, set})
		}
	}
	if last := len(groups) - 1; groups[last].heading == flagsOther && groups[last].own() {
		groups[last].heading = flagsOwn
		groups = slices.Concat(groups[last:], groups[:last])
	}
	return groups
}

// flagsBelow are the flags below a heading.
type flagsBelow struct {
	heading, prefix string
	flags           *pflag.FlagSet
}

// own reports whether there is another flag than those for help.
func (g flagsBelow) own() bool {
	found := false
	g.flags.VisitAll(func(f *pflag.Flag) { found = found || f.Name != "help" && f.Name != helpAll && !f.Hidden })
	return found
}

// usages returns the flags as help lists them, and how many of them it left out: those that are not
// common, unless all is set.
func (g flagsBelow) usages(all bool) (text string, left int) {
	short := pflag.NewFlagSet(g.heading, pflag.ContinueOnError)
	g.flags.VisitAll(func(f *pflag.Flag) {
		if !all && !commonFlags[f.Name] && !flags.IsCommon(f) {
			if !f.Hidden {
				left++
			}
			return
		}
		flag := *f
		flag.Usage = strings.TrimPrefix(f.Usage, g.prefix)
		short.AddFlag(&flag)
	})
	return short.FlagUsages(), left
}

// helpAll is the flag of commands with many flags that asks for help with all of them.
const helpAll = "help-all"

// commonFlags are the flags that most people use. Of a command with many flags, --help lists these
// and the flags of common report formats.
var commonFlags = map[string]bool{
	"agent": true, "task": true, "n-attempts": true, "n-concurrent": true, "env-file": true, "set": true, "path": true, "execute": true,
	"name": true, "env-type": true, "dry-run": true, "shard": true, "budget-cost-usd": true, "resume": true, "against": true, "baseline": true,
	"comment": true, "report": true, "max-broken-tasks": true, "confirm": true, "retry-errors": true, "rerun": true, "help": true, helpAll: true,
}

// manyFlags is how many flags a command has at most without --help-all.
const manyFlags = 33

// askedForAll returns a command line with --help in the place of --help-all, and whether it was
// there.
func askedForAll(args []string) ([]string, bool) {
	for i, arg := range args {
		switch arg {
		case "--":
			return args, false
		case "--" + helpAll:
			args = slices.Clone(args)
			args[i] = "--help"
			return args, true
		}
	}
	return args, false
}

// groupFlags makes the help of all commands list flags below headings if there are many, and only
// the common ones if there are very many, unless all is set.
func groupFlags(root *cobra.Command, all bool) {
	for _, cmd := range root.Commands() {
		n := 0
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { n++ })
		if n > manyFlags {
			cmd.Flags().Bool(helpAll, false, "help with all flags of "+cmd.Name())
		}
	}
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		to := cmd.OutOrStderr()
		var b bytes.Buffer
		cmd.SetOut(&b)
		err := usage(cmd)
		cmd.SetOut(to)
		if err != nil {
			return err
		}
		text := b.String()
		if groups := groupsOf(cmd); groups != nil {
			var list []string
			all, left := all || cmd.Flags().Lookup(helpAll) == nil, 0
			for _, g := range groups {
				usages, n := g.usages(all || g.heading == flagsOwn)
				if left += n; usages != "" {
					list = append(list, g.heading+":\n"+strings.TrimRight(usages, " \n"))
				}
			}
			if left > 0 {
				list = append(list, fmt.Sprintf("%d more: %s --%s", left, cmd.CommandPath(), helpAll))
			}
			text = strings.Replace(text, "Flags:\n"+strings.TrimRight(cmd.LocalFlags().FlagUsages(), " \n"), strings.Join(list, "\n\n"), 1)
		}
		_, err = fmt.Fprint(to, text)
		return err
	})
}
