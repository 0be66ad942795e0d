package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/job/resume"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
	"github.com/org/rollout-action/internal/ui"
	"github.com/org/rollout-action/internal/untrusted"
)

// againFlags say what of a job that is there already is run again.
type againFlags struct {
	retryErrors []string
	onlyFailed  bool
}

func (f *againFlags) add(cmd *cobra.Command, when string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.retryErrors, "retry-errors", nil, when+"also run trials again that ended with these error types, such as agent_execution_timeout, or with any (all)")
	flags.BoolVar(&f.onlyFailed, "only-failed", false, when+"run only failed trials again; leave out trials that never ran or were interrupted")
}

// given returns the flags that were given, as a shell takes them, each after a space.
func (f *againFlags) given() string {
	out := ""
	if len(f.retryErrors) > 0 {
		out += " --retry-errors " + untrusted.ShellPath(strings.Join(f.retryErrors, ","))
	}
	if f.onlyFailed {
		out += " --only-failed"
	}
	return out
}

// again checks the flags and returns what they ask for.
func (f *againFlags) again() (resume.RerunPolicy, error) {
	types, err := resume.ParseErrorTypes(f.retryErrors)
	if err != nil {
		return resume.RerunPolicy{}, usage("--retry-errors: %w", err)
	}
	return resume.RerunPolicy{Types: types, OnlyFailed: f.onlyFailed}, nil
}

func (a *app) resumeCommand() *cobra.Command {
	var flags jobFlags
	var again againFlags
	var report reportFlags
	var jobFile string
	cmd := &cobra.Command{
		Use:   "resume JOB_DIR",
		Short: "Continue a job that was stopped, cancelled or killed",
		Long: `Run the remaining trials of a job in its directory: trials that have no result, that were interrupted, or that failed
because of the infrastructure (environment_*, internal_error). Results stay. Failures of agents, verifiers and tasks
stay, too, because they are outcomes. Before a trial runs again, its directory is moved to superseded/.

The job is read from its config.json. It must be the same work as when it started: the same configuration, and tasks
with the same files. Flags may change how it is run (n_concurrent_trials, retry, log_level, gate, metrics, redact,
max_stream_size, environment.preserve_env, environment.min_free_disk), and n_attempts may grow. If no trial is
left, resume reports on the job as "rollout report" does.
` + exitCodes,
		Example: `  rollout resume jobs/nightly
  rollout resume jobs/nightly --retry-errors agent_execution_timeout,agent_install_failed
  rollout resume jobs/nightly --n-attempts 5 --junit junit.xml`,
		Args: oneArg("a job's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resume(cmd.Context(), args[0], jobFile, flags, again, report)
		},
	}
	again.add(cmd, "")
	cmd.Flags().StringVar(&jobFile, "job-file", "", "read the job from this file instead of its config.json (use it if the job directory moved)")
	flags.addScheduling(cmd)
	flags.addLogFormat(cmd)
	report.add(cmd)
	return cmd
}

// resume resumes the job in a directory.
func (a *app) resume(ctx context.Context, dir, jobFile string, flags jobFlags, againFlags againFlags, report reportFlags) error {
	again, err := againFlags.again()
	if err != nil {
		return err
	}
	if err := a.ready(report); err != nil {
		return err
	}
	flags.gate = report.gate.overrides()
	lock, err := a.lock(dir)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // only a file that means nothing is left
	stored, err := a.openStored(dir)
	if errors.Is(err, resume.ErrNotBegun) {
		return usage("%w (give the directory of a job, such as jobs/nightly; a job that was killed before it began is begun by rollout run JOB_FILE --resume)", err)
	}
	if err != nil {
		return err
	}
	p, err := a.prepareStored(ctx, stored, jobFile, flags)
	if err != nil {
		return err
	}
	p.into, p.report = dir, report
	p.rerun = againFlags.given() + flags.givenLogFormat()
	return a.resumeJob(ctx, p, stored, lock, again, flags.logFormat, report)
}

// resumption returns the command that resumes a job, with the flags of its report that are not in its directory.
func (a *app) resumption(dir string, plan result.Plan, report reportFlags) string {
	command := "rollout resume " + untrusted.ShellPath(dir)
	stored := resume.Job{Dir: a.path(dir), Plan: plan}
	if from, err := stored.PathsFrom(); err != nil || !isDir(from) {
		command += " --job-file JOB_FILE"
	}
	return command + report.given(plan.Compared)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkJobDir returns an error if what should be a job's directory is none.
func (a *app) checkJobDir(dir string) error {
	switch info, err := os.Stat(a.path(dir)); {
	case errors.Is(err, fs.ErrNotExist):
		return usage("%s: there is no such directory (give the directory of a job, such as jobs/nightly)", clean(dir))
	case err == nil && !info.IsDir():
		return usage("%s is a file (give the directory of a job, such as jobs/nightly)", clean(dir))
	}
	return nil
}

// lock takes the lock of a job's directory.
func (a *app) lock(dir string) (*job.Lock, error) {
	if err := a.checkJobDir(dir); err != nil {
		return nil, err
	}
	lock, err := job.TakeLock(a.path(dir), a.Now())
	var busy *job.LockedError
	if errors.As(err, &busy) {
		busy.Dir = clean(dir)
		return nil, usage("%w", busy)
	}
	if err == nil && lock.Unguarded != nil {
		a.warnf("nothing keeps two runs of this job apart: the file system of %s has no locks (%v)", dir, lock.Unguarded)
	}
	return lock, err
}

// openStored reads what is there of a job.
func (a *app) openStored(dir string) (resume.Job, error) {
	stored, err := resume.Load(a.path(dir))
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return stored, usage("%s cannot be resumed: %w", clean(dir), err)
	}
	return stored, err
}

// prepareStored prepares the job in a directory, or a job file in its place.
func (a *app) prepareStored(ctx context.Context, stored resume.Job, jobFile string, flags jobFlags) (*session, error) {
	if jobFile != "" {
		for _, agent := range stored.Config.Agents {
			flags.agents = append(flags.agents, agent.Name)
		}
		return a.prepare(ctx, jobFile, flags)
	}
	from, err := stored.PathsFrom()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(stored.Dir, result.ConfigFile)
	if !isDir(from) {
		return nil, usage("%s: its paths cannot be followed, as it is not known where its job file was, or that directory is gone: give the job file with --job-file", clean(path))
	}
	flags.pathsFrom = from
	p, err := a.prepare(ctx, path, flags)
	if problems := (diag.List{}); errors.As(err, &problems) {
		fmt.Fprintf(a.Stderr, "note: paths of this job begin at %s, where its job file was; if something was moved since, give the job file with --job-file\n", clean(from))
	}
	return p, err
}

// resumeJob runs what is pending of the job that p is today and stored was before.
func (a *app) resumeJob(ctx context.Context, p *session, stored resume.Job, lock *job.Lock, again resume.RerunPolicy, logFormat string, report reportFlags) error {
	p.divideLike(stored.Plan)
	now, err := a.record(p)
	if err != nil {
		return err
	}
	if err := a.checkDrift(p, stored, now); err != nil {
		return err
	}
	pending, err := stored.Pending(now, again)
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return usage("%s cannot be resumed: %w", clean(p.dir()), err)
	}
	if err != nil {
		return err
	}
	p.command = a.resumption(p.dir(), stored.Plan, report) + p.rerun
	look, err := a.begin(p, logFormat)
	if err != nil {
		return err
	}
	if pending.Missing > 0 {
		fmt.Fprintf(a.Stderr, "note: %s without a whole result left as they are (--only-failed)\n", plural.Count(pending.Missing, "trial"))
	}
	prompt := job.Instructions(p.own(), redact.New(p.Secrets))
	p.again, p.confirm = pending.Confirmations, a.confirmer(p, report, maps.Clone(pending.Confirmations))
	if len(pending.Keys) == 0 && !p.confirm.left(ctx, stored.Plan, pending.Earlier) {
		total := len(now.Own())
		fmt.Fprintf(a.Stderr, "Nothing to run: %d of %s in %s %s done\n", pending.Kept, plural.Count(total, "trial"), clean(p.dir()), plural.Are(total))
		if err := stored.Finish(p.Job, now, pending.Earlier, prompt); err != nil {
			return fmt.Errorf("write the job's files: %w", err)
		}
		return a.finish(ctx, p.dir(), report, ending{ran: true, baseline: p.confirm.found()})
	}
	if err := a.refuseDrift(p, stored.VariableDrift(pending, p.Job, p.Visible, p.VisiblePassed)); err != nil {
		return err
	}
	provider, err := a.connect(ctx, p, look)
	if err != nil {
		return err
	}
	defer provider.Close()
	tree, err := stored.Reopen(lock, p.Job, now, pending, prompt, a.Now())
	if err != nil {
		return fmt.Errorf("write the job's files: %w", err)
	}
	p.todo = slices.DeleteFunc(slices.Clone(p.own()), func(s trial.Spec) bool { return !pending.Keys[s.Key] })
	p.earlier = pending.Earlier
	return a.runAndReport(ctx, p, provider, tree, look, report)
}

// begin prints the warnings about a job, and returns how it is shown.
func (a *app) begin(p *session, logFormat string) (ui.Options, error) {
	if logLevel(p.Job.LogLevel) <= slog.LevelWarn {
		a.printWarnings(p.Warnings)
	}
	look, err := a.view(logFormat)
	look.Level = logLevel(p.Job.LogLevel)
	return look, err
}

// divideLike makes p the part of the job that a plan is, whatever would be balanced today.
func (p *session) divideLike(plan result.Plan) {
	p.shard, p.shardOf = plan.Shard, nil
	if plan.Shard == nil {
		return
	}
	of := make(map[result.Key]int, len(plan.Trials))
	for i, key := range plan.Trials {
		of[key] = plan.ShardOf[i]
	}
	p.shardOf = make([]int, len(p.specs))
	for i, s := range p.specs {
		p.shardOf[i] = max(1, of[s.Key]) // a new trial is reported as drift
	}
}

// checkDrift refuses a job that means other work than when it began, naming all that differs.
func (a *app) checkDrift(p *session, stored resume.Job, now result.Plan) error {
	changes, err := stored.Drift(p.Job, now)
	if err != nil {
		return err
	}
	return a.refuseDrift(p, changes)
}

// refuseDrift returns the error of a job that means other work than when it began; nil without changes.
func (a *app) refuseDrift(p *session, changes []resume.Change) error {
	if len(changes) == 0 {
		return nil
	}
	secrets := redact.New(p.Secrets)
	for _, c := range changes {
		line := c.Message
		if c.Key != "" {
			line = c.Key + ": " + line
		}
		fmt.Fprintf(a.Stderr, "%s: %s\n", clean(p.File), clean(secrets.String(line)))
	}
	return usage("%s cannot be resumed, because it is no longer the same work as when it began (%s): undo that, give the flags and variables that it began with, or begin a new job with another --name",
		clean(p.dir()), plural.Count(len(changes), "difference"))
}

// resumeIfExists implements run --resume: it resumes the job if its directory exists.
func (a *app) resumeIfExists(ctx context.Context, p *session, again resume.RerunPolicy, logFormat string, report reportFlags) (done bool, err error) {
	if p.Unnamed {
		return true, usage("%s: --resume needs a job with a name, by which its directory is found: add name: to the file, or --name", clean(p.File))
	}
	if _, err := os.Lstat(a.path(p.dir())); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	lock, err := a.lock(p.dir())
	if err != nil {
		return true, err
	}
	stored, err := a.openStored(p.dir())
	if errors.Is(err, resume.ErrNotBegun) {
		empty, emptyErr := job.NotBegun(a.path(p.dir()))
		if emptyErr == nil && empty {
			p.lock = lock
			return false, nil
		}
		_ = lock.Release()
		return true, usage("%w: choose another --name, or remove the directory", err)
	}
	defer lock.Release() //nolint:errcheck // only a file that means nothing is left
	if err != nil {
		return true, err
	}
	p.into = p.dir()
	return true, a.resumeJob(ctx, p, stored, lock, again, logFormat, report)
}
