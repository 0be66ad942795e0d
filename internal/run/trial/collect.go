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

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/reward"
)

// collect copies /logs out of the environment in any case, and reads the reward if the tests ended.
func (x *execution) collect(ctx context.Context) {
	if x.live == nil || x.startOver != nil {
		return
	}
	x.emit(event.Event{Kind: event.PhaseStarted, Phase: event.Collect})
	c, cancel := x.cleanup(ctx, collectTimeout, collectGrace)
	defer cancel()
	exitCode := x.trial.VerifierExitCode // nil if the tests did not end
	logs := &logCopy{record: &x.record, env: x.live.env, rules: x.rules}
	if x.spec.Again == nil && x.trial.Usage == nil { // else it is that of the earlier trial, or the gateway has counted it
		defer func() {
			x.addModelCost(logs.cost)
			_, priced := x.trial.Costs.Model.Reported()
			x.readOwnWord(priced)
		}()
	}
	unknown := logs.copyAll(c, exitCode != nil)
	if exitCode == nil {
		return
	}
	got, failed := logs.rewards.Read(x.rules, *exitCode, x.secrets)
	switch {
	case *exitCode != 0 && x.rules.ExitCodeCounts:
		if failed == nil {
			x.explainIgnoredReward(x.trial.Error, *exitCode, got.Reward)
		}
	case failed == nil:
		x.trial.Reward, x.trial.Rewards = &got.Reward, got.All
		if got.Note != "" {
			x.warn("%s", got.Note)
		}
		if got.Reward < 0 || got.Reward > 1 {
			x.warn("the reward %g is not between 0 and 1: a trial passes with exactly 1, and a mean takes each reward as it is", got.Reward)
		}
	case logs.rewards.Text.Found || logs.rewards.JSON.Found || unknown == nil:
		x.fail(x.explainReward(failed, x.trial.Omitted))
	case ctx.Err() != nil:
		x.fail(cancelled(ctx, event.Collect))
	default:
		x.fail(classify(event.Collect, unknown, x.timeouts, x.secrets))
	}
}

// explainIgnoredReward adds to the error of a failed test script that it wrote a reward, which does
// not count. The scripts of datasets for other harnesses end like that.
func (p *plan) explainIgnoredReward(e *result.Error, exitCode int, reward float64) {
	if e.Type == result.VerifierFailed {
		e.Message = fmt.Sprintf("tests/test.sh ended with exit code %d, so the reward %g that it wrote does not count: let it end with exit 0, "+
			"or, if the task was made for Harbor, set %s in the job (its output is in %s)",
			exitCode, reward, p.harborSetting(), p.outputIn(result.VerifierDir))
	}
}

// harborSetting returns the setting that makes the job read this task with Harbor's rules.
func (p *plan) harborSetting() string {
	if p.spec.Key.Dataset == config.TasksDataset {
		return "tasks_format: harbor"
	}
	return "format: harbor for its dataset"
}

// formatErrors lists the errors that a task for Harbor may cause under Rollout's rules.
var formatErrors = []result.ErrorType{result.VerifierFailed, result.VerifierRewardMissing, result.VerifierRewardInvalid}

// suggestHarbor adds the signs that the task was made for Harbor to an error that a wrong format
// may have caused. e may be nil.
func (p *plan) suggestHarbor(e *result.Error) {
	if e == nil || p.spec.Task.Format != task.FormatRollout || strings.Contains(e.Message, p.harborSetting()) {
		return
	}
	if solution := p.spec.Agent.Name == agent.Oracle && e.Type == result.AgentExecutionFailed; !solution && !slices.Contains(formatErrors, e.Type) {
		return
	}
	if sign := p.spec.Task.HarborSign(); sign != "" {
		e.Message += fmt.Sprintf("; the task looks made for Harbor (%s): if it is, set %s in the job", sign, p.harborSetting())
	}
}

// explainReward returns the failure of a missing reward with its cause, if that is known: the file
// is not a plain one, or the script has Windows line ends or a byte order mark.
func (p *plan) explainReward(f *failure.Error, omitted []result.Omission) *failure.Error {
	for _, o := range omitted {
		for _, file := range []string{reward.Path, reward.JSONPath} {
			if o.Path == result.LogsDir+"/"+file && f.Type == result.VerifierRewardMissing {
				return failure.Newf(result.VerifierRewardInvalid, "%s/%s could not be read (%s): write one finite number into a plain file there", environment.LogsDir, file, o.Reason)
			}
		}
	}
	if f.Type != result.VerifierRewardMissing {
		return f
	}
	head := p.headOfTests()
	if bytes.Contains(head, []byte("\r\n")) {
		f.Message += "; tests/test.sh has Windows line ends (CRLF), and the shell takes the carriage return for a part of each command or file name: " +
			"sed -i 's/\\r$//' on it"
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		f.Message += "; tests/test.sh begins with a byte order mark (BOM), which the shell takes for a part of the first line: save it as UTF-8 without a mark"
	}
	return f
}

// headOfTests returns the beginning of tests/test.sh.
func (p *plan) headOfTests() []byte {
	const most = 1 << 20
	script, err := p.spec.Task.FS.Open("tests/test.sh")
	if err != nil {
		return nil
	}
	defer script.Close()
	head, _ := io.ReadAll(io.LimitReader(script, most))
	return head
}

// logCopy copies /logs out of an environment, and reads the rewards and the agent's cost from the
// stream.
type logCopy struct {
	*record
	env     environment.Environment
	rules   task.Rules
	rewards reward.Files
	cost    reward.File
}

// copyAll copies /logs. If the tests ended, the error is the reason why it is unknown whether there
// is a reward.
func (l *logCopy) copyAll(ctx context.Context, testsEnded bool) (unknown error) {
	// If /logs is too large, or the copy breaks off, it copies less: the verifier's files must not
	// be lost.
	for _, part := range []string{"", path.Dir(reward.Path)} {
		err := l.copy(ctx, part)
		if err != nil && part == "" {
			why := failure.Brief(err, l.secrets)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil { // the provider's message adds nothing
				why = "the job was cancelled"
			}
			l.warn("%s could not be copied whole: %s", environment.LogsDir, why)
		}
		if err == nil || l.rewards.Complete(l.rules) || !testsEnded {
			return nil
		}
	}
	for _, file := range []string{reward.Path, reward.JSONPath} {
		if err := l.copy(ctx, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			unknown = err
		}
	}
	return unknown
}

// copy copies a directory below /logs, or a reward file.
func (l *logCopy) copy(ctx context.Context, part string) error {
	dir, file := part, part == reward.Path || part == reward.JSONPath
	if file {
		dir = path.Dir(part)
	}
	taps := map[string]*reward.File{reward.Path: &l.rewards.Text, reward.JSONPath: &l.rewards.JSON, reward.CostPath: &l.cost}
	var own []string // below dir: files whose readers look for their names
	for _, name := range slices.Concat(slices.Collect(maps.Keys(taps)), l.rules.LogDirs) {
		name = strings.TrimPrefix(name, environment.LogsDir+"/")
		if dir == "" || strings.HasPrefix(name, dir+"/") {
			own = append(own, strings.TrimPrefix(name, dir+"/"))
		}
	}
	return l.copyOut(ctx, l.env, path.Join(environment.LogsDir, part), path.Join(result.LogsDir, dir), file, own, func(name string, size int64) io.Writer {
		tapped := taps[path.Join(dir, name)]
		if tapped == nil {
			return nil
		}
		tapped.Size = size
		return tapped
	})
}

// copyOut copies src in the environment into a directory below the trial's, and records the files
// that were left out or renamed. The files in own keep their names. If file is true, src must be a
// file, and a directory there is left out. tap receives the files for which it returns a writer.
func (r *record) copyOut(ctx context.Context, env environment.Environment, src, dir string, file bool, own []string, tap func(name string, size int64) io.Writer) error {
	dst := filepath.Join(r.dir, filepath.FromSlash(dir))
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	options := extractOptions(r.secrets)
	options.Tap, options.Reserved, options.File = tap, own, file
	got, err := env.CopyFrom(ctx, src, dst, options)
	for _, o := range got.Omitted {
		r.omit(path.Join(dir, o.Path), o.Reason)
	}
	for _, renamed := range got.Renamed {
		r.rename(path.Join(dir, renamed.From), path.Join(dir, renamed.To))
	}
	return err
}

// extractOptions returns options that redact contents and names.
func extractOptions(secrets *redact.Redactor) environment.ExtractOptions {
	options := environment.ExtractOptions{SafeName: func(name string) string { return result.Slug(secrets.String(name)) }}
	if !secrets.Empty() {
		options.Filter = func(w io.Writer) io.WriteCloser { return secrets.Writer(w) }
	}
	return options
}
