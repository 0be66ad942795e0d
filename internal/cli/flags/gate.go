package flags

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/config"
)

// Gate are flags that win over the keys of gate in a job file, one for each key with one value.
type Gate struct {
	values  map[string]*string // by key
	changed func(string) bool
}

// Add adds the flags of a command that checks the gate. Those that decide which trials run are for
// run alone.
func (f *Gate) Add(cmd *cobra.Command) {
	f.add(cmd, func(k config.GateKey) bool { return cmd.Name() == "run" || k.Alone == "" })
}

// AddTrials adds the flags that decide which trials run, of a command that counts them.
func (f *Gate) AddTrials(cmd *cobra.Command) {
	f.add(cmd, func(k config.GateKey) bool { return k.Alone != "" || k.Flag() == "confirm" })
}

func (f *Gate) add(cmd *cobra.Command, has func(config.GateKey) bool) {
	Grouped(cmd, ForGate, func(flags *pflag.FlagSet) {
		f.values, f.changed = map[string]*string{}, flags.Changed
		for _, k := range config.GateKeys() {
			if !has(k) {
				continue
			}
			f.values[k.Key] = flags.String(k.Flag(), "", "gate: "+k.Doc)
			if k.Alone != "" {
				flags.Lookup(k.Flag()).NoOptDefVal = k.Alone
			}
			Wants(flags, k.Flag(), "leave it out for what the job file says, or write null for no limit")
		}
	})
}

// Overrides returns the flags that were given, as keys of the job file, in the keys' order.
func (f *Gate) Overrides() []config.Override {
	var out []config.Override
	for _, k := range config.GateKeys() {
		if f.changed(k.Flag()) {
			out = append(out, config.Override{Path: "gate." + k.Key, Value: *f.values[k.Key], Origin: "--" + k.Flag()})
		}
	}
	return out
}

// CheckOptional refuses the value of a flag that may stand alone, if a space is between them: it
// would be taken for an argument. line is the command line, args are the arguments in it, and
// isThere reports whether an argument is a file or a directory.
func CheckOptional(flags *pflag.FlagSet, line, args []string, isThere func(string) bool) error {
	for i, word := range line[:max(len(line)-1, 0)] {
		name, isFlag := strings.CutPrefix(word, "--")
		flag := flags.Lookup(name)
		if !isFlag || flag == nil || flag.NoOptDefVal == "" || flag.Value.Type() == "bool" {
			continue
		}
		next := line[i+1]
		value := next == flag.NoOptDefVal || len(args) > 1 && !flags.Changed("registry")
		if value && slices.Contains(args, next) && !isThere(next) {
			return command.Usagef("--%s %s: write --%s=%s", name, next, name, next)
		}
	}
	return nil
}
