package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/registry"
)

func newDatasetsCommand(v *invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "datasets",
		Short: "Look at a registry's datasets, and download them",
		Long: `Look at the datasets of a registry (a registry.json on disk or on the web), and download their tasks.
Jobs fetch by themselves what they need; see datasets[].registry in job files. Without --registry it is
the public registry of Harbor's datasets.
` + doneCodes,
		Example: `  rollout datasets ls
  rollout datasets show terminal-bench@2.0 --registry registry.json
  rollout datasets download terminal-bench --output bench`,
		Args: unknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &failure{code: exitUsage}
		},
	}
	cmd.AddCommand(newDatasetsLsCommand(v), newDatasetsShowCommand(v), newDatasetsDownloadCommand(v))
	return cmd
}

// unknownSubcommand checks the arguments of a command that has only subcommands.
func unknownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := "there are: " + strings.Join(names, ", ")
	if near := diag.DidYouMean(args[0], names); near != "" {
		hint = near
	}
	return usage("%s has no command %q (%s)", cmd.CommandPath(), args[0], hint)
}

// registryFlag adds the flag that names a registry.
func registryFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "registry", registry.DefaultURL, "the registry: a `path` or URL")
}

func newDatasetsLsCommand(v *invocation) *cobra.Command {
	var where string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the datasets of a registry",
		Long:  "List the datasets of a registry, one line for each version.\n" + doneCodes,
		Example: `  rollout datasets ls
  rollout datasets ls --registry https://example.org/registry.json --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			datasets, err := app.ListDatasets(cmd.Context(), v.host(), where)
			if err != nil {
				return err
			}
			if asJSON {
				return v.printJSON(datasets.List)
			}
			return printDatasets(v.Stdout, datasets)
		},
	}
	registryFlag(cmd, &where)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: name, version, description, tasks (their number) and default")
	return cmd
}

// printDatasets prints the datasets of a registry as text.
func printDatasets(out io.Writer, datasets app.Datasets) error {
	w := newTable(out)
	w.row("NAME", "VERSION", "TASKS", "DESCRIPTION")
	for _, d := range datasets.List {
		w.row(cell(d.Name), cell(d.Version), strconv.Itoa(d.Tasks), cell(d.Description))
	}
	if err := w.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s in %s\n", plural.Count(len(datasets.List), "dataset"), datasets.Registry)
	return err
}

// cell makes text from outside fit for a table.
func cell(text string) string { return untrusted.Cut(clean(text), 80) }

func newDatasetsShowCommand(v *invocation) *cobra.Command {
	var where string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME[@VERSION]",
		Short: "Show a dataset of a registry and its tasks",
		Long: `Show a dataset of a registry: where its tasks are, and all of them. Without a version it is the one that
jobs take: head, else the highest.
` + doneCodes,
		Example: `  rollout datasets show terminal-bench
  rollout datasets show terminal-bench@2.0 --json`,
		Args: oneArg("the name of a dataset"),
		RunE: func(cmd *cobra.Command, args []string) error {
			shown, err := app.ShowDataset(cmd.Context(), v.host(), app.DatasetRequest{Registry: where, Label: args[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return v.printJSON(shown)
			}
			return printDataset(v.Stdout, shown)
		},
	}
	registryFlag(cmd, &where)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the dataset as the registry has it, and versions")
	return cmd
}

// printDataset prints a dataset as text.
func printDataset(out io.Writer, d app.ShownDataset) error {
	fmt.Fprintf(out, "%s\n", d.Label())
	if d.Description != "" {
		fmt.Fprintf(out, "%s\n", untrusted.Cut(clean(d.Description), 1000))
	}
	fmt.Fprintf(out, "\nversions: %s\n", cell(strings.Join(d.Versions, ", ")))
	fmt.Fprintf(out, "format: %s\n", cmp.Or(d.Format, string(task.FormatHarbor)))
	if n := len(d.Metrics); n > 0 {
		fmt.Fprintf(out, "metrics of its own: %s, which a job does not use: it has metrics itself\n", plural.Count(n, "metric"))
	}
	fmt.Fprintln(out)
	w := newTable(out)
	w.row("TASK", "PATH", "COMMIT", "REPOSITORY")
	for _, t := range d.Tasks {
		w.row(cell(t.Name), cell(t.Path), cell(short(t.GitCommitID)), cell(cmp.Or(t.GitURL, "beside the registry")))
	}
	return w.flush()
}

func newDatasetsDownloadCommand(v *invocation) *cobra.Command {
	var req app.DownloadRequest
	cmd := &cobra.Command{
		Use:   "download NAME[@VERSION]",
		Short: "Download the tasks of a dataset into a directory",
		Long: `Download the tasks of a dataset into a directory, which a job file can then name as datasets[].path. Tasks are
called as the registry calls them.
` + doneCodes,
		Example: `  rollout datasets download terminal-bench@2.0
  rollout datasets download hello-world --output hello --registry registry.json`,
		Args: oneArg("the name of a dataset"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Label = args[0]
			downloaded, err := app.Download(cmd.Context(), v.host(), req)
			if err != nil {
				return err
			}
			return v.printDownloaded(downloaded)
		},
	}
	registryFlag(cmd, &req.Registry)
	cmd.Flags().StringVar(&req.Output, "output", "", "the `directory`, which must not exist or be empty (default: the dataset's name)")
	return cmd
}

// printDownloaded prints what was written, and what could not be. The latter is a failure.
func (e Env) printDownloaded(d app.Downloaded) error {
	fmt.Fprintf(e.Stdout, "%s of %s in %s; for the job file: {path: %s, format: %s}\n", plural.Count(d.Tasks, "task"), d.Label, d.Output, quoted(d.Output), d.Format)
	if len(d.Failed) == 0 {
		return nil
	}
	for _, f := range d.Failed {
		fmt.Fprintln(e.Stderr, f)
	}
	return &failure{code: exitFailed, err: fmt.Errorf("%s could not be had", plural.Count(len(d.Failed), "task"))}
}

// quoted returns s as a YAML string, in JSON's form.
func quoted(s string) string {
	text, _ := json.Marshal(s) // a string always has a JSON form
	return string(text)
}
