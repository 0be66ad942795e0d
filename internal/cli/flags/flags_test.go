package flags

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/reporters"
)

// parsed returns a command with flags, which has parsed a command line.
func parsed(t *testing.T, line string, add func(*cobra.Command)) *cobra.Command {
	t.Helper()
	cmd := &cobra.Command{Use: "verb"}
	add(cmd)
	if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestOnlyGivenFlagsChangeAJob(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                 nil,
		"--n-attempts 3 --task a --task b": {"n_attempts by --n-attempts", "include_tasks by --task"},
		"--name x --n-concurrent 0":        {"n_concurrent_trials by --n-concurrent", "name by --name"},
	} {
		var job Job
		parsed(t, line, job.Add)
		if got := overridden(t, &job); !slices.Equal(got, want) {
			t.Errorf("%q overrides %q, want %q", line, got, want)
		}
	}
}

// TestTheNameOfANextJobIsNoKey: the job that it is made from keeps its name.
func TestTheNameOfANextJobIsNoKey(t *testing.T) {
	var job Job
	parsed(t, "--name next --n-concurrent 2", func(cmd *cobra.Command) { job.AddNext(cmd, "-verified") })
	if got := overridden(t, &job); job.Name != "next" || !slices.Equal(got, []string{"n_concurrent_trials by --n-concurrent"}) {
		t.Errorf("the job %q overrides %q", job.Name, got)
	}
}

func overridden(t *testing.T, job *Job) (keys []string) {
	t.Helper()
	req, err := job.Request("job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range req.Overrides {
		keys = append(keys, o.Path+" by "+o.Origin)
	}
	return keys
}

func TestAFlagWithoutAValueIsRefused(t *testing.T) {
	add := func(cmd *cobra.Command) {
		Grouped(cmd, ForRunning, func(flags *pflag.FlagSet) {
			flags.String("plain", "", "a thing")
			flags.String("choice", "a", "a choice")
			flags.StringArray("list", nil, "a list")
			Wants(flags, "choice", "want a or b")
		})
	}
	for line, want := range map[string]string{
		"":                   "",
		"--plain x --list a": "",
		"--plain=":           "--plain has no value: leave it out, or give one: a thing",
		"--choice=":          "--choice has no value: want a or b",
		"--list a --list=":   "--list has no value: leave it out, or give one: a list",
	} {
		got := ""
		if err := RefuseEmpty(parsed(t, line, add), nil); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestGroupedFlagsKeepTheirFirstHeading(t *testing.T) {
	cmd := parsed(t, "", func(cmd *cobra.Command) {
		cmd.Flags().Bool("none", false, "")
		Grouped(cmd, ForReports, func(flags *pflag.FlagSet) {
			flags.Bool("outer", false, "")
			Grouped(cmd, ForGate, func(flags *pflag.FlagSet) { flags.Bool("inner", false, "") })
		})
	})
	for name, want := range map[string]string{"none": "", "outer": ForReports, "inner": ForGate} {
		if got := HeadingOf(cmd.Flags().Lookup(name)); got != want {
			t.Errorf("--%s is below %q, want %q", name, got, want)
		}
	}
}

func TestReportsToFilesAndToStdout(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "--report json=a.json": "json:a.json", "--junit j.xml --report markdown": "junit:j.xml, printed markdown",
		"--report json --report markdown": "--report json and --report markdown print two reports: name a file for one of them, as in markdown=FILE",
		"--report nothing=x":              "--report: ",
	} {
		var files Files
		parsed(t, line, func(cmd *cobra.Command) { files.Add(cmd.Flags(), reporters.All, true) })
		var got []string
		asked, printed, err := files.Parse()
		for _, f := range asked {
			got = append(got, f.Format+":"+f.Path)
		}
		if printed != "" {
			got = append(got, "printed "+printed)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if text := strings.Join(got, ", "); text != want && (want != "--report: " || !strings.HasPrefix(text, want)) {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
	if format, err := ToPrint(FormatText, "json"); format != "json" || err != nil {
		t.Errorf("%q, %v", format, err)
	}
	if _, err := ToPrint("markdown", "json"); err == nil {
		t.Error("two reports are printed")
	}
}

func TestOnlyGivenLimitsAreThoseOfTheGate(t *testing.T) {
	key := config.GateKeys()[0]
	var report Report
	parsed(t, "--"+key.Flag()+"=null", func(cmd *cobra.Command) { report.Add(cmd, reporters.All) })
	opts, _, err := report.Options()
	if want := (config.Override{Path: "gate." + key.Key, Value: "null", Origin: "--" + key.Flag()}); err != nil || len(opts.Gate) != 1 || opts.Gate[0] != want {
		t.Errorf("%+v, %v", opts.Gate, err)
	}
	if opts.Baseline != "" || opts.GitHub != "" || opts.Comment != "" {
		t.Errorf("flags that were not given have values: %+v", opts)
	}
}
