package action

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-githubactions"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/envfile"
	"github.com/org/rollout-action/internal/lib/ghvars"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/reporters"
)

// Input is one input of the Action. action.yml lists the same inputs.
type Input struct {
	Name     string
	Commands []string // those that accept it
	// Default is its value when the workflow sets none. A command that does not accept the input
	// ignores this value.
	Default string
	// instead is the advice for a command that does not have the input; may be "".
	instead string
	// lines: the value may have several lines.
	lines bool
	// set sets the value in the request; nil: the Action itself reads it.
	set func(*form, string) error
}

// IsFlag reports whether the command line has a flag with the name of the input.
func (in Input) IsFlag() bool { return in.set != nil && in.Name != "job" && in.Name != "paths" }

// The commands of the Action.
const (
	commandRun      = "run"
	commandPlan     = "plan"
	commandMerge    = "merge"
	commandReport   = "report"
	commandValidate = "validate"
	commandWithdraw = "withdraw"
)

// defaultComment is the default of the input comment.
const defaultComment = "changes"

// Commands returns the commands of the Action.
func Commands() []string { return slices.Clone(commands) }

var (
	commands     = []string{commandRun, commandPlan, commandMerge, commandReport, commandValidate, commandWithdraw}
	onlyRun      = []string{commandRun}
	onlyPlan     = []string{commandPlan}
	onlyMerge    = []string{commandMerge}
	onlyValidate = []string{commandValidate}
	executing    = []string{commandRun, commandValidate} // code of the checkout
	ofAgents     = []string{commandRun, commandPlan}
	beforehand   = []string{commandRun, commandPlan, commandValidate}
	naming       = append(slices.Clone(beforehand), commandMerge, commandWithdraw)
	afterwards   = []string{commandMerge, commandReport}
	commenting   = []string{commandRun, commandPlan, commandMerge, commandReport}
	withReport   = []string{commandRun, commandMerge, commandReport}
	comparing    = []string{commandRun, commandPlan, commandMerge, commandReport}
	withFiles    = []string{commandRun, commandMerge, commandReport, commandValidate}
)

// form collects the values of the inputs, for every command.
type form struct {
	job                    stages.JobRequest
	paths                  []string
	shard                  *result.Shard
	round                  int
	look                   bool
	timings, output, since string
	name                   string // of the job
	reuse                  []string
	against                string
	confirmAgainst         string
	divide                 bool // plan divides the job
	estimate               bool
	shards                 string
	target                 time.Duration
	runs, nopRuns          int
	report                 reporting.ReportOptions
	formats                reporters.Table // of reports that the command has
}

// to returns a setter of a string field.
func to(field func(*form) *string) func(*form, string) error {
	return func(f *form, value string) error {
		*field(f) = value
		return nil
	}
}

// eachTo returns a setter of a list field with an entry per line.
func eachTo(field func(*form) *[]string) func(*form, string) error {
	return func(f *form, value string) error {
		*field(f) = nonEmptyLines(value)
		return nil
	}
}

// reportIn returns a setter of the file of a format of reports.
func reportIn(format string) func(*form, string) error {
	return func(f *form, path string) error {
		f.report.Files = append(f.report.Files, reporting.ReportFile{Format: format, Path: path})
		return nil
	}
}

// setReports adds the lines of the input report.
func setReports(f *form, value string) error {
	for _, line := range nonEmptyLines(value) {
		name, path, err := f.formats.ParseFile(line)
		if err == nil && path == "" {
			err = fmt.Errorf("want NAME=FILE, as in %s=FILE", name)
		}
		if err != nil {
			return usage("the input report: %s", untrusted.Line(err.Error()))
		}
		f.report.Files = append(f.report.Files, reporting.ReportFile{Format: name, Path: path})
	}
	return nil
}

// reportInputs returns the inputs that name files for reports.
func reportInputs() []Input {
	inputs := []Input{{Name: "report", Commands: withFiles, lines: true, set: setReports}}
	for _, f := range reporters.All {
		if f.Flag == "" {
			continue
		}
		in := Input{Name: f.Flag, Commands: withFiles, set: reportIn(f.Name)}
		if f.Proof == nil {
			in.Commands = withReport
		}
		inputs = append(inputs, in)
	}
	return inputs
}

// key returns a setter of a job file key.
func key(input, path string, parse func(string) (any, error)) func(*form, string) error {
	return func(f *form, value string) error {
		parsed, err := parse(value)
		f.job.Overrides = append(f.job.Overrides, config.Override{Path: path, Literal: parsed, Origin: "--" + input})
		return err
	}
}

// overriding returns a setter of a job file key that is parsed as in the file.
func overriding(override func(string) config.Override) func(*form, string) error {
	return func(f *form, value string) error {
		f.job.Overrides = append(f.job.Overrides, override(value))
		return nil
	}
}

// setName sets the key of the job file, and the name that merge looks for.
func setName(f *form, value string) error {
	f.name = value
	return key("name", "name", asText)(f, value)
}

func asText(value string) (any, error)  { return value, nil }
func asLines(value string) (any, error) { return nonEmptyLines(value), nil }

// asNumber returns a parser of an integer input.
func asNumber(input string) func(string) (any, error) {
	return func(value string) (any, error) { return number(input, value) }
}

func number(input, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, usage("the input %s is %q: want a whole number", input, value)
	}
	return n, nil
}

// numberTo returns a setter of an integer field.
func numberTo(input string, set func(*form, int)) func(*form, string) error {
	return func(f *form, value string) error {
		n, err := number(input, value)
		set(f, n)
		return err
	}
}

// Inputs returns all inputs of the Action, in the order of the documentation.
func Inputs() []Input {
	inputs := []Input{
		{Name: "command", Commands: commands, Default: commandRun},
		{Name: "job", Commands: beforehand, lines: true, instead: "it has paths instead: directories with results", set: to(func(f *form) *string { return &f.job.File })},
		{Name: "paths", Commands: afterwards, lines: true, instead: "it has job instead: a job file", set: eachTo(func(f *form) *[]string { return &f.paths })},
		{Name: "shard", Commands: executing, instead: "each job of the matrix runs one shard, and merge puts them together", set: setShard},
		{Name: "round", Commands: onlyRun, instead: "run makes the attempts", set: numberTo("round", func(f *form, n int) { f.round = n })},
		{Name: "look", Commands: onlyMerge, instead: "merge finds the shards, and with look it says which round is next", set: truthTo("look", func(f *form) *bool { return &f.look })},
		{Name: "shards", Commands: onlyPlan, instead: "plan divides a job, and run has shard: 1/4", set: dividing(to(func(f *form) *string { return &f.shards }))},
		{Name: "target", Commands: onlyPlan, instead: "plan divides a job, and run has shard: 1/4", set: dividing(setTarget)},
		{Name: "timings", Commands: ofAgents, set: dividing(to(func(f *form) *string { return &f.timings }))},
		{Name: "reuse", Commands: ofAgents, lines: true, instead: "only run takes trials over", set: eachTo(func(f *form) *[]string { return &f.reuse })},
		{Name: "against", Commands: ofAgents, instead: "run runs it, and merge finds the shards of both", set: to(func(f *form) *string { return &f.against })},
		{Name: "confirm-against", Commands: ofAgents, instead: "run tries tasks again, and merge finds the shards of both", set: to(func(f *form) *string { return &f.confirmAgainst })},
		{Name: "budget-cost-usd", Commands: onlyRun, instead: "only run runs trials that cost something", set: overriding(stages.BudgetCost)},
		{Name: "budget-duration", Commands: onlyRun, instead: "only run runs trials", set: overriding(stages.BudgetDuration)},
		{Name: "agent", Commands: ofAgents, lines: true, set: eachTo(func(f *form) *[]string { return &f.job.Agents })},
		{Name: "task", Commands: beforehand, lines: true, set: key("task", "include_tasks", asLines)},
		{Name: "exclude-task", Commands: beforehand, lines: true, set: key("exclude-task", "exclude_tasks", asLines)},
		{Name: "dataset", Commands: beforehand, lines: true, set: eachTo(func(f *form) *[]string { return &f.job.Selection.Datasets })},
		{Name: "metadata", Commands: beforehand, lines: true, set: eachTo(func(f *form) *[]string { return &f.job.Selection.Metadata })},
		{Name: "n-tasks", Commands: beforehand, set: numberTo("n-tasks", func(f *form, n int) { f.job.Selection.NTasks = &n })},
		{Name: "sample-seed", Commands: beforehand, set: numberTo("sample-seed", func(f *form, n int) { f.job.Selection.Seed = &n })},
		{Name: "n-attempts", Commands: ofAgents, set: key("n-attempts", "n_attempts", asNumber("n-attempts"))},
		{Name: "n-concurrent", Commands: beforehand, set: key("n-concurrent", "n_concurrent_trials", asNumber("n-concurrent"))},
		{Name: "name", Commands: naming, set: setName},
		{Name: "jobs-dir", Commands: beforehand, set: key("jobs-dir", "jobs_dir", asText)},
		{Name: "env-type", Commands: beforehand, set: key("env-type", "environment.type", asText)},
		{Name: "set", Commands: beforehand, lines: true, set: setKeys},
		{Name: "env", Commands: beforehand, lines: true},
		{Name: "runs", Commands: onlyValidate, instead: "run has n-attempts", set: numberTo("runs", func(f *form, n int) { f.runs = n })},
		{Name: "nop-runs", Commands: onlyValidate, set: numberTo("nop-runs", func(f *form, n int) { f.nopRuns = n })},
		{Name: "task-format", Commands: onlyValidate, set: to(func(f *form) *string { return &f.job.TaskFormat })},
		{Name: "changed", Commands: beforehand, set: to(func(f *form) *string { return &f.since })},
		{Name: "output", Commands: onlyMerge, instead: "run has jobs-dir and name", set: to(func(f *form) *string { return &f.output })},
		{Name: "estimate", Commands: onlyPlan, instead: "plan estimates before the trials run", set: truthTo("estimate", func(f *form) *bool { return &f.estimate })},
		{Name: "baseline", Commands: comparing, Default: reporting.GitHubPrefix, set: to(func(f *form) *string { return &f.report.Baseline })},
		{Name: "baseline-artifact", Commands: comparing, Default: reporting.DefaultBaselineArtifact, set: to(func(f *form) *string { return &f.report.Stored.Artifact })},
		{Name: "baseline-workflow", Commands: comparing, set: to(func(f *form) *string { return &f.report.Stored.Workflow })},
		{Name: "history", Commands: withReport, set: to(func(f *form) *string { return &f.report.History })},
	}
	inputs = append(inputs, reportInputs()...)
	inputs = append(inputs, Input{Name: "comment", Commands: commenting, Default: defaultComment, set: to(func(f *form) *string { return &f.report.Comment })})
	for _, k := range config.GateKeys() {
		of := withReport
		switch {
		case k.Alone != "":
			of = ofAgents
		case k.Flag() == "confirm": // an estimate names the further attempts
			of = comparing
		}
		inputs = append(inputs, Input{Name: k.Flag(), Commands: of, set: func(f *form, value string) error {
			f.report.Gate = append(f.report.Gate, config.Override{Path: "gate." + k.Key, Value: value, Origin: "--" + k.Flag()})
			return nil
		}})
	}
	return append(inputs,
		Input{Name: "github-token", Commands: commands, lines: true},
		Input{Name: "allow-fork-checkout", Commands: commands, Default: "false", lines: true},
	)
}

// dividing returns a setter that also makes plan divide the job.
func dividing(set func(*form, string) error) func(*form, string) error {
	return func(f *form, value string) error {
		f.divide = true
		return set(f, value)
	}
}

// LookRequest asks for a look at the shards of a job in rounds, instead of a merge.
type LookRequest reporting.MergeRequest

// truthTo returns a setter of a field that is true or false.
func truthTo(input string, field func(*form) *bool) func(*form, string) error {
	return func(f *form, value string) (err error) {
		if *field(f), err = strconv.ParseBool(value); err != nil {
			return usage("the input %s is %q: want true or false", input, untrusted.Line(value))
		}
		return nil
	}
}

func setShard(f *form, value string) (err error) {
	f.shard, err = host.ParseShard(value, func(string) (string, bool) { return "", false }) // the matrix gives the shard explicitly
	return err
}

func setTarget(f *form, value string) (err error) {
	if f.target, err = time.ParseDuration(value); err != nil {
		return usage("the input target is %q: want a time, as in 20m", value)
	}
	return nil
}

func setKeys(f *form, value string) error {
	for _, line := range nonEmptyLines(value) {
		set, err := stages.ParseSet(line)
		if err != nil {
			return err
		}
		f.job.Sets = append(f.job.Sets, set)
	}
	return nil
}

// inputs holds the inputs of a step.
type inputs struct {
	command string
	values  map[string]string // the non-empty ones
	env     map[string]string // variables for the job file
	formats reporters.Table   // of reports
}

func (s inputs) value(name string) string { return s.values[name] }

// executes reports whether the command executes code of the checkout.
func (s inputs) executes() bool { return slices.Contains(executing, s.command) }

// readInputs reads and checks the inputs that the workflow set. The runner checks neither names nor
// that required inputs are present.
func readInputs(h *host.Host) (inputs, error) {
	if err := checkNames(h); err != nil {
		return inputs{}, err
	}
	reader := githubactions.New(githubactions.WithGetenv(func(name string) string {
		value, _ := h.Getenv(name)
		return value
	}))
	s := inputs{values: map[string]string{}, formats: reporters.All}
	if h.Reporters != nil {
		s.formats = h.Reporters
	}
	for _, in := range Inputs() {
		value := reader.GetInput(in.Name)
		if _, given := h.Getenv("INPUT_BASELINE"); given && value == "" && in.Name == "baseline" {
			value = in.Default // an expression without a value must not mean: compare with nothing
		}
		if value != "" {
			s.values[in.Name] = value
		}
	}
	s.command = s.values["command"]
	if s.command == "" {
		s.command = commandRun
	}
	if !slices.Contains(commands, s.command) {
		return s, usage("the input command is %q: want %s", s.command, strings.Join(commands, ", "))
	}
	if allow := s.value("allow-fork-checkout"); allow != "" && allow != "true" && allow != "false" {
		return s, usage("the input allow-fork-checkout is %q: want true or false", allow)
	}
	var err error
	s.env, err = variables(s.value("env"))
	return s, err
}

// variables parses lines of the form NAME=value. They are secrets, so an error shows no value. A
// value may contain untrusted text (of a pull request) with additional lines, so GitHub's own
// variables are refused: they determine where results go and what they are about.
func variables(text string) (map[string]string, error) {
	vars := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		switch {
		case line == "":
		case !ok || !envfile.VariableName.MatchString(name):
			return nil, usage("line %d of the input env is not of the form NAME=value", number)
		case name == ghvars.Token:
			return nil, usage("the input env sets %s: use the input github-token", name)
		case ghvars.Reserved(name):
			return nil, usage("the input env sets %s, which tells what GitHub knows about this run: use another name", name)
		default:
			vars[name] = value
		}
	}
	return vars, nil
}

// checkNames refuses misspelt inputs, of which the runner only warns.
func checkNames(h *host.Host) error {
	if h.Environ == nil {
		return nil
	}
	var names []string
	for _, in := range Inputs() {
		names = append(names, in.Name)
	}
	var unknown []string
	for _, variable := range h.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		name, isInput := strings.CutPrefix(name, "INPUT_")
		if name = strings.ToLower(name); !isInput || slices.Contains(names, name) {
			continue
		}
		if hint := diag.DidYouMean(name, names); hint != "" {
			name += " (" + hint + ")"
		}
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	if len(unknown) > 0 {
		return usage("the Action has no such input: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// request returns the request that the inputs describe; see Step.Request.
func (s inputs) request() (any, error) {
	f := form{target: stages.DefaultTarget, runs: stages.DefaultRuns, nopRuns: stages.DefaultNopRuns, formats: s.formats}
	if s.command == commandValidate {
		f.formats = s.formats.Proofs()
	}
	for _, in := range Inputs() {
		value := s.value(in.Name)
		switch {
		case value == "":
			continue
		case !slices.Contains(in.Commands, s.command):
			if value == in.Default {
				continue
			}
			return nil, s.useless(in)
		case in.set == nil:
			continue
		case strings.Contains(value, "\n") && !in.lines:
			return nil, usage("the input %s has several lines, and wants one", in.Name)
		}
		if err := in.set(&f, value); err != nil {
			return nil, err
		}
	}
	if slices.Contains(beforehand, s.command) && f.job.File == "" || slices.Contains(afterwards, s.command) && len(f.paths) == 0 {
		return nil, s.missing()
	}
	if f.shard != nil {
		f.report.Comment = "" // the whole job is commented on, when its shards are merged
	}
	if s.command != commandValidate { // which selects tasks, and not trials
		f.job.Changed = f.since
	}
	switch s.command {
	case commandPlan:
		return s.planRequest(f)
	case commandMerge:
		if f.look {
			return LookRequest{Paths: f.paths, Name: f.name, Report: f.report}, nil
		}
		return reporting.MergeRequest{Paths: f.paths, Output: f.output, Name: f.name, Report: f.report}, nil
	case commandWithdraw:
		return reporting.WithdrawRequest{Name: f.name}, nil
	case commandReport:
		if len(f.paths) > 1 {
			return nil, usage("command: report takes one directory in the input paths, got %d: %s", len(f.paths), strings.Join(f.paths, " "))
		}
		return reporting.ReportRequest{Dir: f.paths[0], Options: f.report}, nil
	case commandValidate:
		return proof.ProveRequest{
			Job: f.job, Runs: f.runs, NopRuns: f.nopRuns, Since: f.since, Shard: f.shard,
			Reports: proof.ProveReports{Files: f.report.Files},
		}, nil
	}
	if f.against != "" && f.report.Baseline == reporting.GitHubPrefix {
		f.report.Baseline = "" // the default
	}
	return stages.RunRequest{Against: f.against, ConfirmAgainst: f.confirmAgainst, Job: f.job, Shard: f.shard, Round: f.round, Timings: f.timings, Reuse: f.reuse, Report: f.report}, nil
}

// planRequest returns the request of command: plan.
func (s inputs) planRequest(f form) (any, error) {
	f.job = f.job.Gated(f.report)
	switch comment := s.value("comment"); {
	case f.divide:
		return app.DivideRequest{
			Job: f.job, Shards: f.shards, Target: f.target, Timings: f.timings, Comment: f.report.Comment, Estimate: f.estimate,
			Baseline: f.report.Baseline, Stored: f.report.Stored, Reuse: f.reuse, Against: f.against, ConfirmAgainst: f.confirmAgainst,
		}, nil
	case f.estimate:
		return nil, usage("command: plan has no use for the input estimate without shards")
	case comment != "" && comment != defaultComment:
		return nil, usage("command: plan has no use for the input comment without shards: the comment says that a job goes on that is divided here")
	}
	return f.job, nil
}

func (s inputs) missing() error {
	if s.command == commandValidate {
		return usage("the input job is missing: validate needs a directory of tasks, or a job file, as in job: evals")
	}
	if slices.Contains(beforehand, s.command) {
		return usage("the input job is missing: %s needs a job file, as in job: evals/job.yaml", s.command)
	}
	return usage("the input paths is missing: %s needs directories with results, as in paths: shards", s.command)
}

func (s inputs) useless(in Input) error {
	why := fmt.Sprintf("it is for %s", strings.Join(in.Commands, ", "))
	if in.instead != "" {
		why += "; " + in.instead
	}
	return usage("command: %s has no use for the input %s (%s)", s.command, in.Name, why)
}

// written returns the files and directories that the inputs name as output.
func (s inputs) written() []string {
	var paths []string
	switch s.command {
	case commandMerge:
		if s.value("output") != "" { // without it, the job goes to jobs, which is a target
			paths = append(paths, "jobs")
		}
	case commandReport:
		paths = append(paths, nonEmptyLines(s.value("paths"))...)
	}
	for _, target := range s.targets() {
		paths = append(paths, target.path)
	}
	return paths
}

// target is an output file or directory that an input names.
type target struct{ name, path string }

// targets returns the targets of the inputs.
func (s inputs) targets() []target {
	var targets []target
	if path := s.value("output"); path != "" {
		targets = append(targets, target{"output", filepath.Clean(path)})
	}
	for _, in := range reportInputs() {
		var f form
		f.formats = s.formats
		if value := s.value(in.Name); value == "" || in.set(&f, value) != nil { // request refuses it
			continue
		}
		for _, file := range f.report.Files {
			targets = append(targets, target{in.Name, filepath.Clean(file.Path)})
		}
	}
	if s.command == commandMerge && s.value("output") == "" {
		targets = append(targets, target{"output", "jobs"}) // the default directory of the job
	}
	return targets
}

// nonEmptyLines returns the non-empty lines of an input.
func nonEmptyLines(value string) []string {
	var out []string
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
