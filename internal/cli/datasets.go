package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/registry"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/untrusted"
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

// openRegistry loads the registry of the flag. The caller closes the source.
func (v *invocation) openRegistry(ctx context.Context, where string) (*dataset.Source, *registry.Registry, error) {
	s := v.host().Source()
	if !registry.IsURL(where) {
		where = v.path(where)
	}
	reg, err := s.LoadRegistry(ctx, where)
	if err != nil {
		_ = s.Close() // locks, which end with the process at the latest
		return nil, nil, err
	}
	return s, reg, nil
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
			source, reg, err := v.openRegistry(cmd.Context(), where)
			if err != nil {
				return err
			}
			defer source.Close()
			return v.listDatasets(reg, asJSON)
		},
	}
	registryFlag(cmd, &where)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: name, version, description, tasks (their number) and default")
	return cmd
}

// listed is a dataset as ls prints it.
type listed struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Tasks       int    `json:"tasks"`
	Default     bool   `json:"default"` // the version that is meant when none is given
}

func (v *invocation) listDatasets(reg *registry.Registry, asJSON bool) error {
	list := []listed{}
	versions := map[string][]string{}
	for i := range reg.Datasets {
		d := &reg.Datasets[i]
		versions[d.Name] = append(versions[d.Name], d.Version)
	}
	preferred := make(map[string]string, len(versions))
	for name, all := range versions {
		preferred[name] = registry.Preferred(all)
	}
	for i := range reg.Datasets {
		d := &reg.Datasets[i]
		list = append(list, listed{d.Name, d.Version, d.Description, len(d.Tasks), preferred[d.Name] == d.Version})
	}
	slices.SortStableFunc(list, func(x, y listed) int { return strings.Compare(x.Name, y.Name) })
	if asJSON {
		return v.printJSON(list)
	}
	w := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERSION\tTASKS\tDESCRIPTION")
	for _, d := range list {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", cell(d.Name), cell(d.Version), d.Tasks, cell(d.Description))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(v.Stdout, "\n%s in %s\n", plural.Count(len(list), "dataset"), reg.Source)
	return nil
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
			source, reg, err := v.openRegistry(cmd.Context(), where)
			if err != nil {
				return err
			}
			defer source.Close()
			d, err := find(reg, args[0])
			if err != nil {
				return err
			}
			return v.showDataset(reg, d, asJSON)
		},
	}
	registryFlag(cmd, &where)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the dataset as the registry has it, and versions")
	return cmd
}

func find(reg *registry.Registry, label string) (*registry.Dataset, error) {
	name, version := registry.SplitLabel(label)
	d, err := reg.Find(name, version)
	var missing *registry.NotFoundError
	if errors.As(err, &missing) {
		return nil, usage("%w", err)
	}
	return d, err
}

func (v *invocation) showDataset(reg *registry.Registry, d *registry.Dataset, asJSON bool) error {
	versions := reg.Versions(d.Name)
	if asJSON {
		shown := *d
		shown.Tasks = slices.Clone(d.Tasks)
		for i := range shown.Tasks {
			if t := &shown.Tasks[i]; t.GitURL != "" {
				t.GitURL = dataset.PublicSource(reg, t)
			}
		}
		return v.printJSON(struct {
			registry.Dataset
			Versions []string `json:"versions"`
		}{shown, versions})
	}
	fmt.Fprintf(v.Stdout, "%s\n", d.Label())
	if d.Description != "" {
		fmt.Fprintf(v.Stdout, "%s\n", untrusted.Cut(clean(d.Description), 1000))
	}
	fmt.Fprintf(v.Stdout, "\nversions: %s\n", cell(strings.Join(versions, ", ")))
	fmt.Fprintf(v.Stdout, "format: %s\n", cmp.Or(d.Format, string(task.FormatHarbor)))
	if n := len(d.Metrics); n > 0 {
		fmt.Fprintf(v.Stdout, "metrics of its own: %s, which a job does not use: it has metrics itself\n", plural.Count(n, "metric"))
	}
	fmt.Fprintln(v.Stdout)
	w := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tPATH\tCOMMIT\tREPOSITORY")
	for i := range d.Tasks {
		t := &d.Tasks[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cell(t.Name), cell(t.Path), cell(short(t.GitCommitID)), cell(dataset.PublicSource(reg, t)))
	}
	return w.Flush()
}

func newDatasetsDownloadCommand(v *invocation) *cobra.Command {
	var where, output string
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
			return v.download(cmd.Context(), where, args[0], output)
		},
	}
	registryFlag(cmd, &where)
	cmd.Flags().StringVar(&output, "output", "", "the `directory`, which must not exist or be empty (default: the dataset's name)")
	return cmd
}

func (v *invocation) download(ctx context.Context, where, label, output string) error {
	s, reg, err := v.openRegistry(ctx, where)
	if err != nil {
		return err
	}
	defer s.Close()
	d, err := find(reg, label)
	if err != nil {
		return err
	}
	if output == "" {
		output = result.Slug(d.Name)
	}
	dir := v.path(output)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usage("%s is not empty: choose another --output", output)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usage("--output: %w", err)
	}
	if !registry.IsURL(where) {
		where = v.path(where)
	}
	sets, _, err := s.Load(ctx, []dataset.Ref{{Name: d.Name, Version: d.Version, Registry: where}})
	if err != nil {
		return err
	}
	var failed diag.List
	written := 0
	for _, t := range sets[0].Tasks {
		if t.Missing || isEmpty(t.FS) {
			problem := "there is no such task"
			if len(t.Problems) > 0 {
				problem = t.Problems[0].Message
			}
			failed = append(failed, diag.Diagnostic{File: clean(t.Place()), Message: problem, Hint: nearHint(t.Nearest)})
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(dir, result.Slug(t.Name)), t.FS); err != nil {
			return fmt.Errorf("write the task %s: %w", clean(t.Name), err)
		}
		written++
	}
	fmt.Fprintf(v.Stdout, "%s of %s in %s; for the job file: {path: %s, format: %s}\n", plural.Count(written, "task"), d.Label(), output, quoted(output), sets[0].Format)
	if len(failed) > 0 {
		for _, f := range failed {
			fmt.Fprintln(v.Stderr, f)
		}
		return &failure{code: exitFailed, err: fmt.Errorf("%s could not be had", plural.Count(len(failed), "task"))}
	}
	return nil
}

// quoted returns s as a YAML string, in JSON's form.
func quoted(s string) string {
	text, _ := json.Marshal(s) // a string always has a JSON form
	return string(text)
}

func isEmpty(fsys fs.FS) bool {
	entries, err := fs.ReadDir(fsys, ".")
	return err != nil || len(entries) == 0
}

func nearHint(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s?", clean(near))
}
