package setup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/registry"
)

// NewDatasetsCommand returns the command datasets.
func NewDatasetsCommand(v *command.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "datasets",
		Short: "Look at a registry's datasets, and download them",
		Long: `Look at the datasets of a registry (a registry.json on disk or on the web), and download their tasks.
Jobs fetch the datasets that they need; see datasets[].registry in job files. Without --registry it is
the public registry of Harbor's datasets.
` + command.DoneCodes,
		Example: `  rollout datasets ls
  rollout datasets show terminal-bench@2.0 --registry registry.json
  rollout datasets download terminal-bench --output bench`,
		Args: command.UnknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &command.Failure{Code: command.ExitUsage}
		},
	}
	cmd.AddCommand(newDatasetsLsCommand(v), newDatasetsShowCommand(v), newDatasetsDownloadCommand(v))
	return cmd
}

// registryFlag adds the flag that names a registry.
func registryFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "registry", registry.DefaultURL, "the registry: a `path` or URL of a registry.json, or a repository with a dataset.toml, as org/name@ref or git+https://…")
}

func newDatasetsLsCommand(v *command.Invocation) *cobra.Command {
	var where string
	var asJSON, check bool
	cmd := &cobra.Command{
		Use:   "ls [NAME[@VERSION]...]",
		Short: "List the datasets of a registry",
		Long: `List the datasets of a registry, one line for each version. Names select some of them; without a version it is
the one that jobs take: head, else the highest.

With --check their tasks are downloaded and checked as validate checks them, and what they need is compared with what
each provider can do. Printed are how many tasks each provider accepts, and why it refuses the others. No provider is
asked, and nothing is run. If a dataset cannot be checked, the others are, and the exit code is 3.
` + command.DoneCodes,
		Example: `  rollout datasets ls
  rollout datasets ls --registry https://example.org/registry.json --json
  rollout datasets ls --registry org/repository@v1.2 --check
  rollout datasets ls terminal-bench@2.0 swebench-verified --check`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if check {
				return checkDatasets(cmd.Context(), v, where, args, asJSON)
			}
			datasets, err := inspect.ListDatasets(cmd.Context(), v.Host(), where, args)
			if err != nil {
				return err
			}
			if asJSON {
				return v.PrintJSON(datasets.List)
			}
			return printDatasets(v.Stdout, datasets)
		},
	}
	registryFlag(cmd, &where)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: name, version, description, tasks (their number) and default; with --check also accepted, refused and error")
	cmd.Flags().BoolVar(&check, "check", false, "download the tasks, and say how many can run on which provider, and why the others cannot")
	return cmd
}

// printDatasets prints the datasets of a registry as text.
func printDatasets(out io.Writer, datasets inspect.Datasets) error {
	w := tables.New(out)
	w.Row("NAME", "VERSION", "TASKS", "DESCRIPTION")
	for _, d := range datasets.List {
		w.Row(tables.Cell(d.Name), tables.Cell(d.Version), strconv.Itoa(d.Tasks), tables.Cell(d.Description))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s in %s\n", plural.Count(len(datasets.List), "dataset"), datasets.Registry)
	return err
}

func newDatasetsShowCommand(v *command.Invocation) *cobra.Command {
	var where string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME[@VERSION]",
		Short: "Show a dataset of a registry and its tasks",
		Long: `Show a dataset of a registry: where its tasks are, and all of them. Without a version it is the one that
jobs take: head, else the highest.
` + command.DoneCodes,
		Example: `  rollout datasets show terminal-bench
  rollout datasets show terminal-bench@2.0 --json`,
		Args: command.OneArg("the name of a dataset"),
		RunE: func(cmd *cobra.Command, args []string) error {
			shown, err := inspect.ShowDataset(cmd.Context(), v.Host(), inspect.DatasetRequest{Registry: where, Label: args[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return v.PrintJSON(shown)
			}
			return printDataset(v.Stdout, shown)
		},
	}
	registryFlag(cmd, &where)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the dataset's entry in the registry, and its versions")
	return cmd
}

// printDataset prints a dataset as text.
func printDataset(out io.Writer, d inspect.ShownDataset) error {
	fmt.Fprintf(out, "%s\n", d.Label())
	if d.Description != "" {
		fmt.Fprintf(out, "%s\n", untrusted.Cut(untrusted.Line(d.Description), 1000))
	}
	fmt.Fprintf(out, "\nversions: %s\n", tables.Cell(strings.Join(d.Versions, ", ")))
	fmt.Fprintf(out, "format: %s\n", cmp.Or(d.Format, string(task.FormatHarbor)))
	if n := len(d.Metrics); n > 0 {
		fmt.Fprintf(out, "metrics of the dataset: %s (not used: a job sets its own)\n", plural.Count(n, "metric"))
	}
	fmt.Fprintln(out)
	w := tables.New(out)
	w.Row("TASK", "PATH", "COMMIT", "REPOSITORY")
	for _, t := range d.Tasks {
		w.Row(tables.Cell(t.Name), tables.Cell(t.Path), tables.Cell(short(t.GitCommitID)), tables.Cell(cmp.Or(t.GitURL, "in the registry's directory")))
	}
	return w.Flush()
}

func newDatasetsDownloadCommand(v *command.Invocation) *cobra.Command {
	var req inspect.DownloadRequest
	cmd := &cobra.Command{
		Use:   "download NAME[@VERSION]",
		Short: "Download the tasks of a dataset into a directory",
		Long: `Download the tasks of a dataset into a directory, which a job file can then name as datasets[].path. Tasks are
called as the registry calls them.
` + command.DoneCodes,
		Example: `  rollout datasets download terminal-bench@2.0
  rollout datasets download hello-world --output hello --registry registry.json`,
		Args: command.OneArg("the name of a dataset"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Label = args[0]
			downloaded, err := inspect.Download(cmd.Context(), v.Host(), req)
			if err != nil {
				return err
			}
			return printDownloaded(v.Env, downloaded)
		},
	}
	registryFlag(cmd, &req.Registry)
	cmd.Flags().StringVar(&req.Output, "output", "", "the `directory`, which must not exist or be empty (default: the dataset's name)")
	return cmd
}

// printDownloaded prints what was written, and what could not be. The latter is a failure.
func printDownloaded(e command.Env, d inspect.Downloaded) error {
	fmt.Fprintf(e.Stdout, "%s of %s in %s; for the job file: {path: %s, format: %s}\n", plural.Count(d.Tasks, "task"), d.Label, d.Output, quoted(d.Output), d.Format)
	if len(d.Failed) == 0 {
		return nil
	}
	for _, f := range d.Failed {
		fmt.Fprintln(e.Stderr, f)
	}
	return &command.Failure{Code: command.ExitFailed, Err: fmt.Errorf("%s could not be fetched", plural.Count(len(d.Failed), "task"))}
}

// quoted returns s as a YAML string, in JSON's form.
func quoted(s string) string {
	text, _ := json.Marshal(s) // a string always has a JSON form
	return string(text)
}
