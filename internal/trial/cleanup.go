package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// How long collecting and tearing down may take, usually and once the job is cancelled. All graces
// count from the cancel, and end before the 5 s in which a cancelled job has to be over (GitHub gives
// 7.5 s).
const (
	collectTimeout  = 5 * time.Minute
	teardownTimeout = 2 * time.Minute
	stuckGrace      = 1500 * time.Millisecond // for the running command to be killed
	collectGrace    = 2500 * time.Millisecond
	teardownGrace   = 4 * time.Second
)

// cleanupContext returns a context for what must happen also after a cancel: it ends after normal, or grace after
// the cancel, or when the job is told to stop at once.
func (x *execution) cleanupContext(ctx context.Context, normal, grace time.Duration) (context.Context, context.CancelFunc) {
	c, cancel := awake.WithTimeout(x.opts.Hard, normal)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-c.Done():
		case <-x.graces()[grace]:
		}
		cancel()
	})
	return environment.WithRetryNotify(c, x.recordRetry), func() { stop(); cancel() }
}

// destroyOnCancel destroys the environment (or stops it, with preserve_env: always) if it does not react when ctx is
// cancelled, even if a step is still waiting for it. stop ends the watch and reports whether env was ended.
func (x *execution) destroyOnCancel(ctx context.Context, env environment.Environment) (stop func() (ended bool)) {
	over, cancel := context.WithCancel(x.opts.Hard)
	ended := make(chan bool, 1)
	unwatch := context.AfterFunc(ctx, func() {
		done := false
		defer func() {
			_ = recover() // a provider's bug, which teardown meets again
			ended <- done
		}()
		select {
		case <-over.Done():
			return
		case <-x.graces()[stuckGrace]:
		}
		c, cancel := awake.WithTimeout(x.opts.Hard, teardownGrace-stuckGrace)
		defer cancel()
		end := env.Destroy
		if x.opts.Job.Environment.PreserveEnv == config.PreserveAlways {
			end = env.Stop
		}
		done = end(c) == nil // if not, teardown tries again, and reports
	})
	return func() bool {
		defer cancel()
		if unwatch() {
			return false
		}
		cancel()
		return <-ended
	}
}

// collect copies /logs out of the environment, whatever happened in it, and reads the reward if one
// is due.
func (x *execution) collect(ctx context.Context) {
	defer x.recoverPanic()
	if x.env == nil || x.startOver {
		return
	}
	x.emit(event.Event{Kind: event.PhaseStarted, Phase: event.Collect})
	c, cancel := x.cleanupContext(ctx, collectTimeout, collectGrace)
	defer cancel()
	found, cost := &rewards{}, &rewardFile{}
	defer func() { x.addModelCost(*cost) }()
	unknown := x.copyAllLogs(c, found, cost)
	got, failed := found.read(x.rules, x.testsExitCode, x.opts.Redactor)
	switch {
	case !x.testsEnded:
	case x.testsExitCode != 0 && x.rules.ExitCodeCounts:
		x.explainIgnoredReward(got.reward, failed)
	case failed == nil:
		x.trial.Reward, x.trial.Rewards = &got.reward, got.all
		if got.note != "" {
			x.warn("%s", got.note)
		}
		if got.reward < 0 || got.reward > 1 {
			x.warn("the reward %g is not between 0 and 1: a trial passes with exactly 1, and a mean takes each reward as it is", got.reward)
		}
	case found.text.found || found.json.found || unknown == nil:
		x.fail(x.explainReward(failed))
	case ctx.Err() != nil:
		x.fail(cancelled(ctx, event.Collect))
	default:
		x.fail(classify(event.Collect, unknown, x.timeouts, x.opts.Redactor))
	}
}

// copyAllLogs copies /logs. The error says why it cannot be told whether there is a reward.
func (x *execution) copyAllLogs(ctx context.Context, found *rewards, cost *rewardFile) (unknown error) {
	// Less and less, if there is too much in /logs, or the copy breaks off: what the verifier left must
	// not be lost to that.
	for _, part := range []string{"", path.Dir(rewardPath)} {
		err := x.copyLogs(ctx, part, found, cost)
		if err != nil && part == "" {
			x.warn("%s could not be copied whole: %s", environment.LogsDir, brief(err, x.opts.Redactor))
		}
		if err == nil || found.complete(x.rules) || !x.testsEnded {
			return nil
		}
	}
	for _, file := range []string{rewardPath, rewardJSONPath} {
		if err := x.copyLogs(ctx, file, found, cost); err != nil && !errors.Is(err, fs.ErrNotExist) {
			unknown = err
		}
	}
	return unknown
}

// explainIgnoredReward adds to the error of a failed test script that it wrote a reward, which does not count. The scripts
// of datasets made for other harnesses end like that.
func (x *execution) explainIgnoredReward(value float64, invalid *failure) {
	if e := x.trial.Error; invalid == nil && e.Type == result.VerifierFailed {
		e.Message = fmt.Sprintf("tests/test.sh ended with exit code %d, so the reward %g that it wrote does not count: let it end with exit 0, "+
			"or, if the task was made for Harbor, set %s in the job (its output is in logs/verifier/stdout.txt and logs/verifier/stderr.txt)",
			x.testsExitCode, value, x.harborSetting())
	}
}

// harborSetting is what makes the job read this task by Harbor's rules.
func (x *execution) harborSetting() string {
	if x.spec.Key.Dataset == config.TasksDataset {
		return "tasks_format: harbor"
	}
	return "format: harbor for its dataset"
}

// formatErrors are the errors that a task made for Harbor meets when it is run by Rollout's rules.
var formatErrors = []result.ErrorType{result.VerifierFailed, result.VerifierRewardMissing, result.VerifierRewardInvalid}

// suggestHarbor adds to an error that the task's format may explain why the task looks made for Harbor.
func (x *execution) suggestHarbor() {
	e := x.trial.Error
	if e == nil || x.spec.Task.Format != task.FormatRollout || strings.Contains(e.Message, x.harborSetting()) {
		return
	}
	if solution := x.spec.Agent.Name == agent.Oracle && e.Type == result.AgentExecutionFailed; !solution && !slices.Contains(formatErrors, e.Type) {
		return
	}
	if sign := x.spec.Task.HarborSign(); sign != "" {
		e.Message += fmt.Sprintf("; the task looks made for Harbor (%s): if it is, set %s in the job", sign, x.harborSetting())
	}
}

// explainReward returns the failure of a missing reward with its cause, if that is known: the file is not a plain one, or
// the script has Windows line ends.
func (x *execution) explainReward(f *failure) *failure {
	for _, o := range x.trial.Omitted {
		for _, file := range []string{rewardPath, rewardJSONPath} {
			if o.Path == "logs/"+file && f.Type == result.VerifierRewardMissing {
				return failf(result.VerifierRewardInvalid, "%s/%s could not be read (%s): write one finite number into a plain file there", environment.LogsDir, file, o.Reason)
			}
		}
	}
	if f.Type == result.VerifierRewardMissing && x.testsHaveCRLF() {
		f.Message += "; tests/test.sh has Windows line ends (CRLF), and the shell takes the carriage return for a part of each command or file name: " +
			"sed -i 's/\\r$//' on it"
	}
	return f
}

// testsHaveCRLF reports whether the beginning of tests/test.sh has a line that ends with a carriage return.
func (x *execution) testsHaveCRLF() bool {
	const most = 1 << 20
	script, err := x.spec.Task.FS.Open("tests/test.sh")
	if err != nil {
		return false
	}
	defer script.Close()
	head, _ := io.ReadAll(io.LimitReader(script, most))
	return bytes.Contains(head, []byte("\r\n"))
}

// copyLogs copies a folder below /logs, or a reward file, out of the environment, notes what was left
// behind, and catches the rewards and the cost on their way.
func (x *execution) copyLogs(ctx context.Context, part string, found *rewards, cost *rewardFile) error {
	folder := part
	if part == rewardPath || part == rewardJSONPath {
		folder = path.Dir(part)
	}
	taps := map[string]*rewardFile{rewardPath: &found.text, rewardJSONPath: &found.json, costPath: cost}
	var own []string // below part: what the trial's reader looks for
	for _, name := range slices.Concat(slices.Collect(maps.Keys(taps)), x.rules.LogDirs) {
		name = strings.TrimPrefix(name, environment.LogsDir+"/")
		if folder == "" || strings.HasPrefix(name, folder+"/") {
			own = append(own, strings.TrimPrefix(name, folder+"/"))
		}
	}
	return x.copyOut(ctx, path.Join(environment.LogsDir, part), path.Join("logs", folder), own, func(name string, size int64) io.Writer {
		file := taps[path.Join(folder, name)]
		if file == nil {
			return nil
		}
		file.size = size
		return file
	})
}

// copyOut copies what is at src in the environment into a folder below the trial's. Paths in own keep their names.
func (x *execution) copyOut(ctx context.Context, src, folder string, own []string, tap func(name string, size int64) io.Writer) error {
	dst := filepath.Join(x.dir, filepath.FromSlash(folder))
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	secrets := x.opts.Redactor
	options := environment.ExtractOptions{
		SafeName: func(name string) string { return result.Slug(secrets.String(name)) },
		Tap:      tap,
		Reserved: own,
	}
	if !secrets.Empty() {
		options.Filter = func(w io.Writer) io.WriteCloser { return secrets.Writer(w) }
	}
	got, err := x.env.CopyFrom(ctx, src, dst, options)
	for _, o := range got.Omitted {
		x.omit(path.Join(folder, o.Path), o.Reason)
	}
	for _, r := range got.Renamed {
		x.trial.Renamed = append(x.trial.Renamed, result.Rename{
			From: secrets.String(path.Join(folder, r.From)),
			To:   secrets.String(path.Join(folder, r.To)),
		})
	}
	return err
}

// teardown destroys the environment, or stops and keeps it for inspection.
func (x *execution) teardown(ctx context.Context) {
	defer x.recoverPanic()
	if x.env == nil {
		return
	}
	x.emit(event.Event{Kind: event.PhaseStarted, Phase: event.Teardown})
	c, cancel := x.cleanupContext(ctx, teardownTimeout, teardownGrace)
	defer cancel()
	err := x.endEnvironment(c)
	x.trial.Costs.Environment += x.env.Cost()
	if err != nil {
		f := failf(result.EnvironmentTeardownFailed, "the environment could not be removed: %s (remove it with rollout clean)", brief(err, x.opts.Redactor))
		f.detail = err.Error()
		x.fail(f)
	}
}

// endEnvironment stops or destroys the environment, as preserve_env says.
func (x *execution) endEnvironment(ctx context.Context) error {
	keep := x.preserve()
	if x.endedOnCancel {
		x.trial.Environment.Preserved = keep
		return nil
	}
	if keep {
		err := x.env.Stop(ctx)
		x.trial.Environment.Preserved = err == nil
		if err == nil || !x.lostEnvironment() {
			return err
		}
	}
	return x.env.Destroy(ctx)
}

func (x *execution) lostEnvironment() bool {
	return x.trial.Error != nil && x.trial.Error.Type == result.EnvironmentLost
}

// preserve applies preserve_env. A cancelled trial did not fail, and a lost environment is kept only
// if everything is.
func (x *execution) preserve() bool {
	switch x.opts.Job.Environment.PreserveEnv {
	case config.PreserveAlways:
		return !x.startOver
	case config.PreserveOnFailure:
		if e := x.trial.Error; e != nil {
			return e.Type != result.Cancelled && !x.lostEnvironment()
		}
		return x.trial.Reward != nil && *x.trial.Reward < 1
	}
	return false
}
