package record

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/reward"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// LogCopy copies /logs out of an environment, and reads the rewards and the agent's cost from the
// stream.
type LogCopy struct {
	*Record
	Env     environment.Environment
	Rules   task.Rules
	Only    Side
	Rewards reward.Files
	Cost    reward.File
}

// Side selects a part of /logs; the zero value is all of it.
type Side int

// The sides of the tests and of the agent, if they have had an environment each.
const (
	AllLogs      Side = iota
	AgentLogs         // all but the verifier's
	VerifierLogs      // the verifier's alone
)

var verifierPart = path.Dir(reward.Path)

// CopyAll copies /logs. If the tests ended, the error is the reason why it is unknown whether there
// is a reward.
func (l *LogCopy) CopyAll(ctx context.Context, testsEnded bool) (unknown error) {
	// If /logs is too large, or the copy breaks off, it copies less: the verifier's files must not
	// be lost.
	parts := []string{"", verifierPart}
	if l.Only == VerifierLogs {
		parts = parts[1:]
	}
	for _, part := range parts {
		err := l.copy(ctx, part)
		if err != nil && part == parts[0] {
			why := failure.Brief(err, l.Secrets)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil { // the provider's message adds nothing
				why = "the job was cancelled"
			}
			l.Warn("%s could not be copied whole: %s", environment.LogsDir, why)
		}
		if err == nil || l.Rewards.Complete(l.Rules) || !testsEnded {
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
func (l *LogCopy) copy(ctx context.Context, part string) error {
	dir, file := part, part == reward.Path || part == reward.JSONPath
	if file {
		dir = path.Dir(part)
	}
	taps := map[string]*reward.File{reward.Path: &l.Rewards.Text, reward.JSONPath: &l.Rewards.JSON, reward.CostPath: &l.Cost}
	var own []string // below dir: files whose readers look for their names
	for _, name := range slices.Concat(slices.Collect(maps.Keys(taps)), l.Rules.LogDirs) {
		name = strings.TrimPrefix(name, environment.LogsDir+"/")
		if dir == "" || strings.HasPrefix(name, dir+"/") {
			own = append(own, strings.TrimPrefix(name, dir+"/"))
		}
	}
	options := ExtractOptions(l.Secrets)
	options.Reserved, options.File = own, file
	options.Tap = func(name string, size int64) io.Writer {
		tapped := taps[path.Join(dir, name)]
		if tapped == nil {
			return nil
		}
		tapped.Size = size
		return tapped
	}
	if l.Only == AgentLogs {
		options.Skip = func(name string) bool { return name == verifierPart || strings.HasPrefix(name, verifierPart+"/") }
	}
	return l.copyOut(ctx, l.Env, path.Join(environment.LogsDir, part), path.Join(result.LogsDir, dir), options)
}

// CopyOut copies src in the environment into a directory below the trial's, and records the files
// that were left out or renamed. The files in own keep their names. If file is true, src must be a
// file, and a directory there is left out. tap receives the files for which it returns a writer.
func (r *Record) CopyOut(ctx context.Context, env environment.Environment, src, dir string, file bool, own []string, tap func(name string, size int64) io.Writer) error {
	options := ExtractOptions(r.Secrets)
	options.Tap, options.Reserved, options.File = tap, own, file
	return r.copyOut(ctx, env, src, dir, options)
}

func (r *Record) copyOut(ctx context.Context, env environment.Environment, src, dir string, options environment.ExtractOptions) error {
	dst := filepath.Join(r.Dir, filepath.FromSlash(dir))
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	got, err := env.CopyFrom(ctx, src, dst, options)
	for _, o := range got.Omitted {
		r.Omit(path.Join(dir, o.Path), o.Reason)
	}
	for _, renamed := range got.Renamed {
		r.Rename(path.Join(dir, renamed.From), path.Join(dir, renamed.To))
	}
	return err
}

// ExtractOptions returns options that redact contents and names.
func ExtractOptions(secrets *redact.Redactor) environment.ExtractOptions {
	options := environment.ExtractOptions{SafeName: func(name string) string { return result.Slug(secrets.String(name)) }}
	if !secrets.Empty() {
		options.Filter = func(w io.Writer) io.WriteCloser { return secrets.Writer(w) }
	}
	return options
}

// CopyInstallLogs copies the script's files in /logs, which belong to this trial alone.
func (r *Record) CopyInstallLogs(ctx context.Context, env environment.Environment, logDirs []string) error {
	dst := filepath.Join(r.Dir, result.SetupDir, result.LogsDir)
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	ctx, cancel := awake.WithTimeout(ctx, timing.CopyTimeout)
	defer cancel()
	err := r.CopyOut(ctx, env, environment.LogsDir, result.SetupDir+"/"+result.LogsDir, false, nil, nil)
	for _, dir := range slices.Concat(logDirs, []string{environment.LogsDir}) { // those that are empty
		if below, relErr := filepath.Rel(environment.LogsDir, dir); relErr == nil && filepath.IsLocal(below) {
			_ = os.Remove(filepath.Join(dst, below))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
