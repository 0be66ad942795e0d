package prompt

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Bounds of the files that are compared.
const (
	maxFiles = 200
	maxFile  = 64 << 10
	maxDiff  = 256 << 10
)

// files quotes how the agent's files differ from those of the baseline. Without those, it quotes
// what the agent has changed, if judges were shown that.
func (p *Prompts) files(t result.Trial, size int) string {
	if base, ok := p.in.BaseOf(t); ok {
		before, after := artifacts(p.in.BaseFiles, base.Key), artifacts(p.in.Files, t.Key)
		if text := difference(before, after); text != "" {
			lead := fmt.Sprintf("The artifacts (`-` attempt %d of the baseline, `+` this trial):\n\n", base.Attempt)
			return withLead(lead, excerpt.Text{Tail: untrusted.Lines(text)}, size)
		}
	}
	file := path.Join(result.JudgeInputsDir, result.JudgeChangesFile)
	if changes := report.Ends(p.in, path.Join(t.Dir(), file), maxLines); !changes.Empty() {
		return withLead("What the agent changed in the environment. "+lead(file), changes, size)
	}
	return ""
}

// artifacts returns the artifacts of a trial by name, with those of each step if its task has some.
// Those that are no text or too large are nil.
func artifacts(files fs.FS, key result.Key) map[string][]byte {
	found := map[string][]byte{}
	in := report.Input{Files: files}
	add := func(dir, above string) {
		if !report.IsDir(in, dir) {
			return
		}
		_ = fs.WalkDir(files, dir, func(name string, e fs.DirEntry, err error) error { // what cannot be read is left out
			switch {
			case err != nil:
				return fs.SkipDir
			case e.IsDir():
				return nil
			case len(found) == maxFiles:
				return fs.SkipAll
			}
			found[strings.TrimPrefix(name, above+"/")] = textOf(in, name)
			return nil
		})
	}
	add(path.Join(key.Dir(), result.ArtifactsDir), path.Join(key.Dir(), result.ArtifactsDir))
	for _, step := range report.StepDirs(in, result.Trial{Key: key}) {
		add(path.Join(key.Dir(), step, result.ArtifactsDir), key.Dir())
	}
	return found
}

// textOf returns the content of a text file that is not too large; nil otherwise.
func textOf(in report.Input, name string) []byte {
	file, size, err := report.Open(in, name)
	if err != nil {
		return nil
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil || size > maxFile || len(data) > maxFile || bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return nil
	}
	if data == nil {
		return []byte{}
	}
	return data
}

// difference returns how files differ.
func difference(before, after map[string][]byte) string {
	names := maps.Clone(before)
	maps.Copy(names, after)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, had := before[name]
		now, has := after[name]
		shown := untrusted.Cut(untrusted.Line(name), maxName)
		switch {
		case b.Len() > maxDiff:
			return b.String()
		case had && has && (old == nil || now == nil):
			continue // it is not known whether they differ
		case had && old == nil, has && now == nil:
			fmt.Fprintf(&b, "only %s has %s, which is not text or too large\n", map[bool]string{true: "this trial", false: "the baseline"}[has], shown)
		case !had:
			b.Write(diff.Diff("/dev/null", nil, shown, now))
		case !has:
			b.Write(diff.Diff(shown, old, "/dev/null", nil))
		default:
			b.Write(diff.Diff(shown, old, shown, now))
		}
	}
	return b.String()
}
