package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/core/config"
)

// gateFlags are the flags that win over the keys of gate in a job file, one for each key with one
// value.
type gateFlags struct {
	values  map[string]*string // by key
	changed func(string) bool
}

func (f *gateFlags) add(cmd *cobra.Command) {
	grouped(cmd, flagsGate, func(flags *pflag.FlagSet) {
		f.values, f.changed = map[string]*string{}, flags.Changed
		for _, k := range config.GateKeys() {
			f.values[k.Key] = flags.String(k.Flag(), "", "gate: "+k.Doc)
			wants(flags, k.Flag(), "leave it out for what the job file says, or write null for no limit")
		}
	})
}

// overrides returns the flags that were given, as keys of the job file, in the keys' order.
func (f *gateFlags) overrides() []config.Override {
	var out []config.Override
	for _, k := range config.GateKeys() {
		if f.changed(k.Flag()) {
			out = append(out, config.Override{Path: "gate." + k.Key, Value: *f.values[k.Key], Origin: "--" + k.Flag()})
		}
	}
	return out
}
