package prove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app/mine"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	mined "github.com/org/rollout-action/internal/run/mine"
)

// Defaults of mine.
const (
	MineLimit = 20            // commits that are tried
	MineOut   = "evals/mined" // the dataset
)

// mineOptions are the flags of mine.
type mineOptions struct {
	since, out, image, dockerfile, format string
	github                                string
	limit, concurrent                     int
	paths, sets                           []string
	dryRun, refresh, retry                bool
	envType, jobsDir                      string
	view                                  flags.View
	changed                               func(string) bool
}

// NewMineCommand returns the command mine.
func NewMineCommand(v *command.Invocation) *cobra.Command {
	var opts mineOptions
	cmd := &cobra.Command{
		Use:   "mine [REPOSITORY]",
		Short: "Make proven tasks of a repository's own history",
		Long: `Make tasks of commits that changed code and tests together, prove them and write the proven ones into a
dataset. The commits are those of the first parents of HEAD: a merge is one commit. No model is asked.

Of each commit the environment is the repository before it, without .git; the hidden tests are its test files; the
solution is the rest of it; the instruction is its message, or a stub if that says too little. A task is proven if all
its tests pass three times with the change, some of them fail three times without it, and no network is needed. A table
says of each commit what became of it.

Tests are run by go test, pytest or unittest, jest, vitest, mocha or node --test, cargo test, Maven, bash (*_test.sh)
and, for other languages, make test. The Dockerfile is proposed from go.mod, pyproject.toml, package.json, Cargo.toml,
pom.xml and the like; with --dry-run it is shown. Tasks that the dataset has are left as they are. Mining again tries older
commits; --refresh looks only at those that are new since. Commits that runs have left out are in left-out.json of the
dataset, and are tried again with another Dockerfile or with --retry.
` + command.DoneCodes,
		Example: `  rollout mine --dry-run
  rollout mine --since 2026-01-01 --paths internal/parser --out evals/mined
  rollout mine ../service --dockerfile ci/Dockerfile.evals --env-type docker`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := opts.request(append(args, ".")[0])
			if err != nil {
				return err
			}
			return runMine(cmd.Context(), v, req, opts)
		},
	}
	opts.changed = cmd.Flags().Changed
	fs := cmd.Flags()
	fs.StringVar(&opts.since, "since", "", "only commits that were written (author's date) and committed since this date, as in 2026-01-31")
	fs.IntVar(&opts.limit, "limit", MineLimit, "try at most so many promising commits, the newest first")
	fs.StringArrayVar(&opts.paths, "paths", nil, "only commits that change code in this directory or in files that this glob matches (repeatable)")
	fs.StringVar(&opts.out, "out", MineOut, "the directory of the dataset")
	fs.StringVar(&opts.image, "image", "", "the image that the proposed Dockerfile begins with")
	fs.StringVar(&opts.dockerfile, "dockerfile", "", "a Dockerfile in place of the proposed one; it has to copy repo/ to /app")
	fs.BoolVar(&opts.dryRun, "dry-run", false, "look at the commits and show the Dockerfiles; build, run and write nothing")
	fs.BoolVar(&opts.refresh, "refresh", false, "only commits after the newest one that has a task in the dataset")
	fs.StringVar(&opts.github, "github", "", "take instructions from the merged pull requests of this repository, as OWNER/NAME (needs GITHUB_TOKEN)")
	fs.BoolVar(&opts.retry, "retry", false, "try commits again that an earlier run has left out (left-out.json of the dataset)")
	fs.StringVar(&opts.format, "format", flags.FormatText, "the format of the output: text or json")
	flags.Wants(fs, "since", "want a date such as 2026-01-31")
	flags.Wants(fs, "format", "want text or json")
	flags.Grouped(cmd, flags.ForRunning, func(fs *pflag.FlagSet) {
		fs.StringVar(&opts.envType, "env-type", "", "the provider to run on")
		fs.StringVar(&opts.jobsDir, "jobs-dir", "", "the directory in which the proof's directories are made")
		fs.IntVar(&opts.concurrent, "n-concurrent", 0, "trials at a time")
		fs.StringArrayVar(&opts.sets, "set", nil, "set any key of the proof's job, as in environment.override_cpus=2 (repeatable)")
	})
	opts.view.Add(cmd)
	return cmd
}

// request returns what a command line asks for.
func (o *mineOptions) request(repository string) (mine.Request, error) {
	req := mine.Request{Repository: repository, Limit: o.limit, Paths: o.paths, Out: o.out, Image: o.image, Dockerfile: o.dockerfile, DryRun: o.dryRun, Refresh: o.refresh, Retry: o.retry, GitHub: o.github}
	if o.since != "" {
		var err error
		if req.Since, err = time.Parse(time.DateOnly, o.since); err != nil {
			return req, command.Usagef("--since %s: want a date such as 2026-01-31", untrusted.Line(o.since))
		}
	}
	switch {
	case o.format != flags.FormatText && o.format != flags.FormatJSON:
		return req, command.Usagef("--format %s: want text or json", untrusted.Line(o.format))
	case o.limit < 1:
		return req, command.Usagef("--limit wants at least 1")
	case o.image != "" && o.dockerfile != "":
		return req, command.Usagef("--image is for the proposed Dockerfile, and --dockerfile replaces it: give one of them")
	case o.image != untrusted.Line(o.image) || strings.ContainsAny(o.image, " \t"):
		return req, command.Usagef("--image %s: want the name of an image", untrusted.Line(o.image))
	}
	for _, f := range []struct {
		flag, path string
		value      any
	}{{"env-type", "environment.type", o.envType}, {"jobs-dir", "jobs_dir", o.jobsDir}, {"n-concurrent", "n_concurrent_trials", o.concurrent}} {
		if o.changed(f.flag) {
			req.Job.Overrides = append(req.Job.Overrides, config.Override{Path: f.path, Literal: f.value, Origin: "--" + f.flag})
		}
	}
	for _, set := range o.sets {
		override, err := stages.ParseSet(set)
		if err != nil {
			return req, err
		}
		req.Job.Sets = append(req.Job.Sets, override)
	}
	for _, glob := range o.paths {
		if _, err := path.Match(glob, ""); err != nil {
			return req, command.Usagef("--paths %s: %w", untrusted.Line(glob), err)
		}
	}
	return req, nil
}

// candidate is a mined.Candidate for programs.
type candidate struct {
	Commit    string       `json:"commit"`
	Date      string       `json:"author_date"`
	Subject   string       `json:"subject"`
	Task      string       `json:"task"`
	Reason    mined.Reason `json:"reason"`
	Detail    string       `json:"detail"`
	Files     int          `json:"files"`
	Lines     int          `json:"lines"`
	Languages []string     `json:"languages"`
	Tests     int          `json:"tests"`
	// Dockerfile is the proposed one, in a dry run.
	Dockerfile string `json:"dockerfile,omitempty"`
}

// runMine mines and prints what became of each commit.
func runMine(ctx context.Context, v *command.Invocation, req mine.Request, opts mineOptions) error {
	host, err := v.HostShowing(opts.view.Format)
	if err != nil {
		return err
	}
	found, err := mine.Run(ctx, host, req)
	if len(found.Candidates) == 0 && err != nil {
		return err
	}
	if err == nil {
		err = found.NotRun()
	}
	if opts.format == flags.FormatJSON {
		return errors.Join(err, v.PrintJSON(forPrograms(found)))
	}
	return errors.Join(err, PrintMined(v.Stdout, found, req.DryRun))
}

func forPrograms(found mine.Result) any {
	out := struct {
		SchemaVersion int         `json:"schema_version"`
		Dataset       string      `json:"dataset"`
		Evidence      []string    `json:"evidence"` // the directories of the jobs that ran the tasks
		Left          int         `json:"left"`     // commits that were not looked at
		Candidates    []candidate `json:"candidates"`
	}{1, found.Out, append([]string{}, found.Evidence...), found.Left, []candidate{}}
	for _, c := range found.Candidates {
		out.Candidates = append(out.Candidates, candidate{
			c.Commit, c.Date, c.Subject, c.Task, c.Reason, c.Detail, c.Files, c.Lines, append([]string{}, c.Languages...), c.Tests, found.Dockerfiles[c.Task],
		})
	}
	return out
}

// PrintMined prints a line for each commit, then the numbers.
func PrintMined(w io.Writer, found mine.Result, dry bool) error {
	t := tables.New(w)
	t.Row("COMMIT", "DATE", "RESULT", "FILES", "LINES", "TESTS", "SUBJECT", "WHY")
	counts := map[mined.Reason]int{}
	for _, c := range found.Candidates {
		counts[c.Reason]++
		date, _, _ := strings.Cut(c.Date, "T")
		t.Row(c.Commit[:8], tables.Cell(date), string(c.Reason), strconv.Itoa(c.Files), number(c.Lines), number(c.Tests), untrusted.Cut(c.Subject, 50), untrusted.Cut(c.Detail, 100))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	by := map[string][]string{}
	for task, text := range found.Dockerfiles {
		by[text] = append(by[text], task)
	}
	for _, text := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "\nDockerfile of %s:\n", plural.Count(len(by[text]), "task"))
		for _, line := range untrusted.Lines(text) {
			b.WriteString("  " + line + "\n")
		}
	}
	fmt.Fprintf(&b, "%s looked at", plural.Count(len(found.Candidates), "commit"))
	if found.Left > 0 {
		fmt.Fprintf(&b, ", %d older not (--limit)", found.Left)
	} else if len(found.Candidates) == mine.MaxCommits {
		b.WriteString(", older ones are never looked at")
	}
	if dry {
		fmt.Fprintf(&b, ": %d promising\n", counts[mined.Promising])
	} else {
		fmt.Fprintf(&b, ": %d proven, in %s\n", counts[mined.Proven], untrusted.Line(found.Out))
	}
	if len(found.Evidence) > 0 {
		fmt.Fprintf(&b, "Evidence: %s\n", untrusted.Line(strings.Join(found.Evidence, ", ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number writes a number; 0 is not known.
func number(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}
