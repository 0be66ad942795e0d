package cli

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sethvargo/go-githubactions"
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/github"
)

// Args returns the arguments of a process that was started with these words: the image of the Action has the program
// under names that stand for its hidden verb, because GitHub's runner starts one path, without arguments.
func Args(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	switch name := words[0][strings.LastIndexByte(words[0], '/')+1:]; name {
	case "rollout-action":
		return append([]string{"action"}, words[1:]...)
	case "rollout-post":
		return append([]string{"action", "post"}, words[1:]...)
	}
	return words[1:]
}

func newActionCommand(v *invocation) *cobra.Command {
	return &cobra.Command{
		Use:    "action [post]",
		Hidden: true,
		Short:  "Run as a step of a GitHub workflow",
		Long: `What the container of the Action runs: the inputs in the environment (INPUT_*) become a command line.
"post" runs after the job, and removes what the step has left.
` + exitCodes,
		Example: `  rollout action
  rollout action post`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"post"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				v.actionPost(cmd.Context())
				return nil
			}
			return v.annotated(v.action(cmd.Context()))
		},
	}
}

// action runs the step: it reads the inputs and does what they say.
func (v *invocation) action(ctx context.Context) error {
	in, err := v.readInputs()
	if err != nil {
		return err
	}
	v.mask(append(slices.Sorted(maps.Values(in.env)), in.value("github-token")))
	var g *guard
	if slices.Contains(executing, in.command) && in.value("allow-fork-checkout") != "true" {
		if g, err = v.newGuard(ctx, in); err != nil {
			return err
		}
	}
	if g != nil {
		defer g.Close()
	}
	args, err := in.commandLine()
	if err != nil {
		return err
	}
	written := in.written()
	v.saveState(stateWritten, written)
	defer func() { v.handOver(written) }()

	step := *v
	if g != nil {
		step.guard = g
	}
	step.Getenv = func(name string) (string, bool) {
		if name == "XDG_CACHE_HOME" && g != nil && g.cacheDir != "" {
			return g.cacheDir, true
		}
		if value, ok := in.env[name]; ok {
			return value, true
		}
		if token := in.value("github-token"); name == "GITHUB_TOKEN" && token != "" {
			return token, true
		}
		return v.Getenv(name)
	}
	step.github = readOnce(step.Getenv)
	step.onLoad = func(loaded *config.Loaded) {
		v.mask(loaded.Secrets)
		if slices.Contains(executing, in.command) {
			written = append(written, loaded.Job.JobsDir)
			v.saveState(stateWritten, written)
			v.saveState(stateProvider, loaded.Job.Environment.Type)
			v.saveState(stateOwner, environment.Self())
		}
	}
	root := step.root()
	root.SetArgs(args)
	root.SetIn(v.Stdin)
	root.SetOut(v.Stdout)
	root.SetErr(v.Stderr)
	return g.inShown(root.ExecuteContext(ctx))
}

// commands writes commands of workflows. They go to stderr: stdout is for what was asked for, and the runner reads
// both. The library panics if it cannot write.
func (v *invocation) commands() *githubactions.Action {
	return githubactions.New(githubactions.WithWriter(patient{v}), githubactions.WithGetenv(v.getenv))
}

// patient writes to stderr, and does not mind if nobody reads it any more.
type patient struct{ v *invocation }

func (p patient) Write(b []byte) (int, error) {
	_, _ = p.v.Stderr.Write(b)
	return len(b), nil
}

// shortestMask is the length in characters from which a value is hidden; shorter ones would hide half the log. It is
// that of package redact.
const shortestMask = 6

// mask has the runner hide values in the log and in summaries. It hides each line for itself, however short, so
// that short lines of a secret (the braces of a key in JSON) are not given to it.
func (v *invocation) mask(secrets []string) {
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); utf8.RuneCountInString(line) >= shortestMask {
				v.commands().AddMask(line)
			}
		}
	}
}

// maxAnnotated is how many annotations of a kind the runner keeps of a step. Source: actions/runner,
// ExecutionContext.cs, _maxCountPerIssueType.
const maxAnnotated = 10

// annotated reports on the workflow's page what went wrong; a problem in a file is shown in that file.
func (v *invocation) annotated(err error) error {
	var f *failure
	var problems diag.List
	switch {
	case err == nil, errors.As(err, &f) && f.err == nil:
		return err // nothing is left to report
	case errors.As(err, &problems):
		for i, p := range problems.Errors() {
			if i < maxAnnotated {
				v.annotate(p)
			}
		}
		v.printProblems(problems)
	default:
		v.annotate(diag.Diagnostic{Message: err.Error()})
	}
	return &failure{code: exitCode(err, true)}
}

func (v *invocation) annotate(p diag.Diagnostic) {
	fields := map[string]string{"title": "Rollout"}
	for key, at := range map[string]int{"line": p.Line, "col": p.Column} {
		if at > 0 {
			fields[key] = strconv.Itoa(at)
		}
	}
	if p.File != "" {
		fields["file"] = clean(p.File)
	}
	if p.Hint != "" {
		p.Message += " (" + p.Hint + ")"
	}
	var lines []string
	for line := range strings.Lines(p.Message) {
		lines = append(lines, clean(line))
	}
	v.commands().WithFieldsMap(fields).Errorf("%s", strings.Join(lines, "\n"))
}

// What the step tells its post step, as JSON. Source for their way: GitHub's documentation, "Sending values to the pre
// and post actions".
const (
	stateWritten  = "rollout_written"  // []string: where it writes in the workspace
	stateProvider = "rollout_provider" // string
	stateOwner    = "rollout_owner"    // environment.Owner
)

// saveState leaves a value for the post step. Without it, the post step finds less to do.
func (v *invocation) saveState(name string, value any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = github.SaveState(v.Getenv, name, string(text))
	}
	if err != nil {
		v.warnf("the step after the job will not know what to clean up: %v", err)
	}
}

// state reads what saveState left, and reports whether it is there.
func (v *invocation) state(name string, value any) bool {
	text := v.getenv("STATE_" + name)
	return text != "" && json.Unmarshal([]byte(text), value) == nil
}
