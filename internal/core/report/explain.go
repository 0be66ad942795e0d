package report

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// The logs of a trial, below its directory.
const (
	setupStdout    = result.SetupDir + "/" + result.StdoutFile
	setupStderr    = result.SetupDir + "/" + result.StderrFile
	commandStdout  = result.CommandDir + "/" + result.StdoutFile
	commandStderr  = result.CommandDir + "/" + result.StderrFile
	verifierStdout = result.VerifierDir + "/" + result.StdoutFile
	verifierStderr = result.VerifierDir + "/" + result.StderrFile
)

// Bounds of the lines that Explain returns.
const (
	explainLines = 50
	explainBytes = 16 << 10
	explainWidth = 500
)

// Explain returns the log that explains why a trial did not pass, shortened if it is long (see
// excerpt.Text.Telling): the first of those for its type of error, or for a reward below 1, that is
// not empty. file is relative to the job's directory. Lines are safe to show (see untrusted.Lines):
// at most 50 of at most 500 bytes, 16 KiB together. Both are empty if there is nothing to show.
func Explain(in Input, t result.Trial) (file string, log excerpt.Text) {
	for _, log := range explaining(t) {
		dir := failedDir(t)
		if log == result.ErrorFile {
			dir = t.Dir()
		}
		file := path.Join(dir, log)
		if log := read(in, file).Telling(explainLines, explainBytes, explainWidth); !log.Empty() {
			return file, log
		}
	}
	return "", excerpt.Text{}
}

// Ends returns the beginning and the end of a file in the job's directory, in at most lines lines
// that are bounded as those of Explain are. It is empty if the file is missing, empty or not a
// regular one.
func Ends(in Input, file string, lines int) excerpt.Text {
	return read(in, file).Fit(lines, explainBytes, explainWidth)
}

// read returns the lines of a file, or of its beginning and its end.
func read(in Input, file string) excerpt.Text {
	head, tail, dropped, err := readEnds(in.Files, file)
	if err != nil {
		return excerpt.Text{}
	}
	return excerpt.Text{Head: untrusted.Lines(string(head)), Tail: untrusted.Lines(string(tail)), Dropped: dropped}
}

// RawEnds returns the beginning and the end of a file in the job's directory as they are: hostile
// bytes. dropped is the number of bytes between them; if it is 0, tail is all of the file. It is
// empty if the file is missing or not a regular one.
func RawEnds(in Input, file string) (head, tail []byte, dropped int64) {
	head, tail, dropped, err := readEnds(in.Files, file)
	if err != nil {
		return nil, nil, 0
	}
	return head, tail, dropped
}

// Open opens a regular file in the job's directory, and returns its size. It follows no link.
func Open(in Input, file string) (f fs.File, size int64, err error) {
	f, info, err := open(in.Files, file)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Caption returns the line above a log that explains a trial.
func Caption(log excerpt.Text, file string) string {
	switch {
	case len(log.Middle) > 0:
		return "Parts of " + file + ":"
	case log.Dropped > 0:
		return "The beginning and the end of " + file + ":"
	}
	return "From " + file + ":"
}

// explaining returns the logs that may explain a trial, the likeliest first.
func explaining(t result.Trial) []string {
	verifier := []string{verifierStdout, verifierStderr}
	if t.Error == nil {
		if t.Completed() && !t.Passed() {
			return verifier
		}
		return nil
	}
	switch kind := string(t.Error.Type); {
	case strings.HasPrefix(kind, "agent_install_"):
		return []string{setupStderr, setupStdout, result.ErrorFile}
	case strings.HasPrefix(kind, "agent_execution_"):
		return []string{commandStderr, commandStdout, result.ErrorFile}
	case strings.HasPrefix(kind, "verifier_"):
		return append(verifier, result.ErrorFile)
	}
	return []string{result.ErrorFile}
}

// Logs returns the files of a trial that a user may want to open, relative to the job's directory.
// Missing and empty ones are left out. Those of steps come in the order of the steps; of a trial
// without a result, that of the step that runs comes first.
func Logs(in Input, t result.Trial) []string {
	names := []string{path.Join(t.Dir(), result.ErrorFile)}
	dirs := runDirs(in, t)
	if len(t.Steps) == 0 {
		slices.Reverse(dirs)
	}
	for _, dir := range dirs {
		for _, log := range []string{verifierStdout, verifierStderr, commandStdout, commandStderr, setupStdout, setupStderr} {
			names = append(names, path.Join(dir, log))
		}
	}
	if !slices.Contains(dirs, t.Dir()) {
		names = append(names, path.Join(t.Dir(), setupStdout), path.Join(t.Dir(), setupStderr))
	}
	var found []string
	for _, name := range append(names, path.Join(t.Dir(), result.ResultFile)) {
		if n, err := sizeOf(in.Files, name); err == nil && n > 0 {
			found = append(found, name)
		}
	}
	return found
}

// RunLogs returns the files that runs of a trial's agent and of its tests write while they run, in
// the trial's directory dir and in those of its steps, relative to the job's directory. Some may be
// missing.
func RunLogs(in Input, dir string) (files []string) {
	for _, below := range append([]string{""}, begunSteps(in, dir)...) {
		for _, log := range []string{setupStdout, setupStderr, commandStdout, commandStderr, verifierStdout, verifierStderr} {
			files = append(files, path.Join(dir, below, log))
		}
	}
	return files
}
