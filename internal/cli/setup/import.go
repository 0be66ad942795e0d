package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/harborjob"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// NewImportCommand returns the command import.
func NewImportCommand(v *command.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Make a job file from another tool's",
		Long:  "Make a job file from another tool's.\n" + command.DoneCodes,
		Example: `  rollout import harbor configs/job.yaml
  rollout import harbor configs/job.yaml --output job.yaml`,
		Args: command.UnknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &command.Failure{Code: command.ExitUsage}
		},
	}
	output := ""
	harbor := &cobra.Command{
		Use:   "harbor JOB",
		Short: "Make a job file from one of Harbor, with comments about what it cannot carry over",
		Long: `Make a job file from one of Harbor (YAML or JSON), with comments about what it cannot carry over. Paths in Harbor's file
are relative to the current directory, as Harbor reads them; in the new file they are relative to that file.
` + command.DoneCodes,
		Example: `  rollout import harbor configs/job.yaml
  rollout import harbor configs/job.yaml --output job.yaml && rollout validate job.yaml`,
		Args: command.OneArg("a job file of Harbor"),
		RunE: func(_ *cobra.Command, args []string) error { return importHarbor(v, args[0], output) },
	}
	harbor.Flags().StringVar(&output, "output", "", "write to this `file`, which must not exist, instead of stdout")
	cmd.AddCommand(harbor)
	return cmd
}

// maxJob is the size up to which a job file is read, in bytes.
const maxJob = 4 << 20

// readJob reads a file that the user names.
func readJob(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJob+1))
	if err == nil && len(text) > maxJob {
		err = errors.New("it has more than 4 MiB")
	}
	return text, err
}

func importHarbor(v *command.Invocation, name, output string) error {
	paths := v.Host().Paths
	text, err := readJob(paths.Path(name))
	if err != nil {
		return command.Usagef("read %s: %w", untrusted.Line(name), reasonOf(err))
	}
	here, err := filepath.Abs(paths.Path("."))
	if err != nil {
		return err
	}
	into := filepath.Dir(filepath.Join(here, cmp.Or(output, "job.yaml")))
	if filepath.IsAbs(output) {
		into = filepath.Dir(output)
	}
	made, err := harborjob.Convert(untrusted.Line(name), text, here, into)
	if err != nil {
		return command.Usagef("%w", err)
	}
	if output == "" {
		_, err = v.Stdout.Write(made.Text)
		return err
	}
	err = writeNew(paths.Path(output), made.Text)
	if errors.Is(err, fs.ErrExist) {
		return command.Usagef("%s is there already: remove it, or name another file with --output", untrusted.Line(output))
	}
	if err != nil {
		return command.Usagef("write %s: %w", untrusted.Line(output), reasonOf(err))
	}
	fmt.Fprintln(v.Stdout, untrusted.Line(output))
	if n := len(made.Notes); n > 0 {
		fmt.Fprintf(v.Stderr, "%s not carried over: the file begins with the reasons\n", plural.Count(n, "key")+" "+plural.Are(n))
	}
	fmt.Fprintf(v.Stderr, "next: rollout validate %s\n", untrusted.ShellPath(output))
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// reasonOf returns the reason of an error about a path, without the path.
func reasonOf(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
