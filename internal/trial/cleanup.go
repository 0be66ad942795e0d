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

// cleanup is a context for what must happen also after a cancel: it ends after normal, or grace after
// the cancel, or when the job is told to stop at once.
func (a *attempt) cleanup(ctx context.Context, normal, grace time.Duration) (context.Context, context.CancelFunc) {
	c, cancel := awake.WithTimeout(a.opts.Hard, normal)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-c.Done():
		case <-a.graces()[grace]:
		}
		cancel()
	})
	return environment.WithRetryNotify(c, a.noteRetry), func() { stop(); cancel() }
}

// hurry sees to it that an environment which does not answer a cancel is ended all the same, however
// deep a step is stuck in it. calm stops that, and reports whether it has happened already.
func (a *attempt) hurry(ctx context.Context, env environment.Environment) (calm func() (ended bool)) {
	over, cancel := context.WithCancel(a.opts.Hard)
	ended := make(chan bool, 1)
	stop := context.AfterFunc(ctx, func() {
		done := false
		defer func() {
			_ = recover() // a provider's bug, which teardown meets again
			ended <- done
		}()
		select {
		case <-over.Done():
			return
		case <-a.graces()[stuckGrace]:
		}
		c, cancel := awake.WithTimeout(a.opts.Hard, teardownGrace-stuckGrace)
		defer cancel()
		end := env.Destroy
		if a.opts.Job.Environment.PreserveEnv == config.PreserveAlways {
			end = env.Stop
		}
		done = end(c) == nil // if not, teardown tries again, and reports
	})
	return func() bool {
		defer cancel()
		if stop() {
			return false
		}
		cancel()
		return <-ended
	}
}

// collect copies /logs out of the environment, whatever happened in it, and reads the reward if one
// is due.
func (a *attempt) collect(ctx context.Context) {
	defer a.recovered()
	if a.env == nil || a.startOver {
		return
	}
	a.emit(event.Event{Kind: event.PhaseStarted, Phase: event.Collect})
	c, cancel := a.cleanup(ctx, collectTimeout, collectGrace)
	defer cancel()
	found, cost := &rewards{}, &rewardFile{}
	defer func() { a.noteCost(*cost) }()
	unknown := a.copyAllLogs(c, found, cost)
	got, failed := found.read(a.rules, a.testCode, a.opts.Redactor)
	switch {
	case !a.tested:
	case a.testCode != 0 && a.rules.ExitCodeCounts:
		a.disregard(got.reward, failed)
	case failed == nil:
		a.trial.Reward, a.trial.Rewards = &got.reward, got.all
		if got.note != "" {
			a.warn("%s", got.note)
		}
		if got.reward < 0 || got.reward > 1 {
			a.warn("the reward %g is not between 0 and 1: a trial passes with exactly 1, and a mean takes each reward as it is", got.reward)
		}
	case found.text.found || found.json.found || unknown == nil:
		a.fail(a.explained(failed))
	case ctx.Err() != nil:
		a.fail(cancelled(ctx, event.Collect))
	default:
		a.fail(classify(event.Collect, unknown, a.timeouts, a.opts.Redactor))
	}
}

// copyAllLogs copies /logs. The error says why it cannot be told whether there is a reward.
func (a *attempt) copyAllLogs(ctx context.Context, found *rewards, cost *rewardFile) (unknown error) {
	// Less and less, if there is too much in /logs, or the copy breaks off: what the verifier left must
	// not be lost to that.
	for _, part := range []string{"", path.Dir(rewardPath)} {
		err := a.copyLogs(ctx, part, found, cost)
		if err != nil && part == "" {
			a.warn("%s could not be copied whole: %s", environment.LogsDir, brief(err, a.opts.Redactor))
		}
		if err == nil || found.settled(a.rules) || !a.tested {
			return nil
		}
	}
	for _, file := range []string{rewardPath, rewardJSONPath} {
		if err := a.copyLogs(ctx, file, found, cost); err != nil && !errors.Is(err, fs.ErrNotExist) {
			unknown = err
		}
	}
	return unknown
}

// disregard says that a test script which failed has written a reward all the same: that is how
// datasets made for other harnesses end their scripts.
func (a *attempt) disregard(value float64, invalid *failure) {
	if e := a.trial.Error; invalid == nil && e.Type == result.VerifierFailed {
		e.Message = fmt.Sprintf("tests/test.sh ended with exit code %d, so the reward %g that it wrote does not count: let it end with exit 0, "+
			"or, if the task was made for Harbor, set %s in the job (its output is in logs/verifier/stdout.txt and logs/verifier/stderr.txt)",
			a.testCode, value, a.harborSetting())
	}
}

// harborSetting is what makes the job read this task by Harbor's rules.
func (a *attempt) harborSetting() string {
	if a.spec.Key.Dataset == config.TasksDataset {
		return "tasks_format: harbor"
	}
	return "format: harbor for its dataset"
}

// byTheFormat are errors that a task made for Harbor meets when it is run by Rollout's rules.
var byTheFormat = []result.ErrorType{result.VerifierFailed, result.VerifierRewardMissing, result.VerifierRewardInvalid}

// suspectFormat adds to an error that the task's format may explain what it is that makes it look made for Harbor.
func (a *attempt) suspectFormat() {
	e := a.trial.Error
	if e == nil || a.spec.Task.Format != task.FormatRollout || strings.Contains(e.Message, a.harborSetting()) {
		return
	}
	if solution := a.spec.Agent.Name == agent.Oracle && e.Type == result.AgentExecutionFailed; !solution && !slices.Contains(byTheFormat, e.Type) {
		return
	}
	if sign := a.spec.Task.HarborSign(); sign != "" {
		e.Message += fmt.Sprintf("; the task looks made for Harbor (%s): if it is, set %s in the job", sign, a.harborSetting())
	}
}

// explained tells a reward that is no plain file from one that is not there.
func (a *attempt) explained(f *failure) *failure {
	for _, o := range a.trial.Omitted {
		for _, file := range []string{rewardPath, rewardJSONPath} {
			if o.Path == "logs/"+file && f.Type == result.VerifierRewardMissing {
				return failf(result.VerifierRewardInvalid, "%s/%s could not be read (%s): write one finite number into a plain file there", environment.LogsDir, file, o.Reason)
			}
		}
	}
	if f.Type == result.VerifierRewardMissing && a.windowsTests() {
		f.Message += "; tests/test.sh has Windows line ends (CRLF), and the shell takes the carriage return for a part of each command or file name: " +
			"sed -i 's/\\r$//' on it"
	}
	return f
}

// windowsTests reports whether the beginning of tests/test.sh has a line that ends with a carriage return.
func (a *attempt) windowsTests() bool {
	const most = 1 << 20
	script, err := a.spec.Task.FS.Open("tests/test.sh")
	if err != nil {
		return false
	}
	defer script.Close()
	head, _ := io.ReadAll(io.LimitReader(script, most))
	return bytes.Contains(head, []byte("\r\n"))
}

// copyLogs copies a folder below /logs, or a reward file, out of the environment, notes what was left
// behind, and catches the rewards and the cost on their way.
func (a *attempt) copyLogs(ctx context.Context, part string, found *rewards, cost *rewardFile) error {
	folder := part
	if part == rewardPath || part == rewardJSONPath {
		folder = path.Dir(part)
	}
	taps := map[string]*rewardFile{rewardPath: &found.text, rewardJSONPath: &found.json, costPath: cost}
	var own []string // below part: what the trial's reader looks for
	for _, name := range slices.Concat(slices.Collect(maps.Keys(taps)), a.rules.LogDirs) {
		name = strings.TrimPrefix(name, environment.LogsDir+"/")
		if folder == "" || strings.HasPrefix(name, folder+"/") {
			own = append(own, strings.TrimPrefix(name, folder+"/"))
		}
	}
	return a.copyOut(ctx, path.Join(environment.LogsDir, part), path.Join("logs", folder), own, func(name string, size int64) io.Writer {
		file := taps[path.Join(folder, name)]
		if file == nil {
			return nil
		}
		file.size = size
		return file
	})
}

// copyOut copies what is at src in the environment into a folder below the trial's. Paths in own keep their names.
func (a *attempt) copyOut(ctx context.Context, src, folder string, own []string, tap func(name string, size int64) io.Writer) error {
	dst := filepath.Join(a.dir, filepath.FromSlash(folder))
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	secrets := a.opts.Redactor
	options := environment.ExtractOptions{
		SafeName: func(name string) string { return result.Slug(secrets.String(name)) },
		Tap:      tap,
		Reserved: own,
	}
	if !secrets.Empty() {
		options.Filter = func(w io.Writer) io.WriteCloser { return secrets.Writer(w) }
	}
	got, err := a.env.CopyFrom(ctx, src, dst, options)
	for _, o := range got.Omitted {
		a.omit(path.Join(folder, o.Path), o.Reason)
	}
	for _, r := range got.Renamed {
		a.trial.Renamed = append(a.trial.Renamed, result.Rename{
			From: secrets.String(path.Join(folder, r.From)),
			To:   secrets.String(path.Join(folder, r.To)),
		})
	}
	return err
}

// teardown destroys the environment, or stops and keeps it for inspection.
func (a *attempt) teardown(ctx context.Context) {
	defer a.recovered()
	if a.env == nil {
		return
	}
	a.emit(event.Event{Kind: event.PhaseStarted, Phase: event.Teardown})
	c, cancel := a.cleanup(ctx, teardownTimeout, teardownGrace)
	defer cancel()
	err := a.end(c)
	a.trial.Costs.Environment += a.env.Cost()
	if err != nil {
		f := failf(result.EnvironmentTeardownFailed, "the environment could not be removed: %s (remove it with rollout clean)", brief(err, a.opts.Redactor))
		f.detail = err.Error()
		a.fail(f)
	}
}

// end stops or destroys the environment, as preserve_env says.
func (a *attempt) end(ctx context.Context) error {
	keep := a.preserves()
	if a.ended {
		a.trial.Environment.Preserved = keep
		return nil
	}
	if keep {
		err := a.env.Stop(ctx)
		a.trial.Environment.Preserved = err == nil
		if err == nil || !a.lostEnvironment() {
			return err
		}
	}
	return a.env.Destroy(ctx)
}

func (a *attempt) lostEnvironment() bool {
	return a.trial.Error != nil && a.trial.Error.Type == result.EnvironmentLost
}

// preserves applies preserve_env. A cancelled trial did not fail, and a lost environment is kept only
// if everything is.
func (a *attempt) preserves() bool {
	switch a.opts.Job.Environment.PreserveEnv {
	case config.PreserveAlways:
		return !a.startOver
	case config.PreserveOnFailure:
		if e := a.trial.Error; e != nil {
			return e.Type != result.Cancelled && !a.lostEnvironment()
		}
		return a.trial.Reward != nil && *a.trial.Reward < 1
	}
	return false
}
