package prove

import (
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/task"
)

// layout maps the files of a task to the names that the rules know: those of a task with a
// task.toml. The zero layout changes nothing.
//
// The rules see tasks of terminal-bench by these names, so that none of them needs to know both.
type layout struct {
	files   task.Files
	differs bool
}

func layoutOf(t *task.Task) layout {
	return layout{t.Files(), t.Format == task.FormatTerminalBench}
}

// known returns the name by which the rules know a file.
func (l layout) known(name string) string {
	if !l.differs {
		return name
	}
	switch name {
	case l.files.Config:
		return instructionFile
	case l.files.TestScript:
		return testsScript
	case l.files.Solution:
		return solutionScript
	}
	if strings.HasPrefix(name, l.files.Tests+"/") {
		return name
	}
	if below, ok := l.inContext(name); ok {
		return path.Join(path.Dir(dockerfile), below)
	}
	return name
}

// inContext returns a file's name below the directory that the image is built from.
func (l layout) inContext(name string) (below string, ok bool) {
	if l.files.Context == "." {
		return name, true
	}
	return strings.CutPrefix(name, l.files.Context+"/")
}

// rename gives the files the names that the rules know.
func (l layout) rename(files []file) []file {
	if !l.differs {
		return files
	}
	out := slices.Clone(files)
	for i := range out {
		out[i].name = l.known(out[i].name)
	}
	return out
}

// context returns the files of the build context, as the rules know them, and all others. A
// task's own scripts are in its context, too.
func (l layout) context(files []file) []file {
	if !l.differs {
		return files
	}
	out := l.rename(files)
	for _, f := range files {
		if below, ok := l.inContext(f.name); ok && l.known(f.name) != path.Join(path.Dir(dockerfile), below) {
			f.name = path.Join(path.Dir(dockerfile), below)
			out = append(out, f)
		}
	}
	return out
}

// written returns findings with the names of the task's own files.
func (l layout) written(findings []Finding) []Finding {
	if !l.differs {
		return findings
	}
	context := l.files.Context + "/"
	if l.files.Context == "." {
		context = ""
	}
	pairs := []string{
		testsScript, l.files.TestScript, solutionScript, l.files.Solution, instructionFile, l.files.Config, configFile, l.files.Config,
		path.Dir(dockerfile) + "/", context,
	}
	paths := strings.NewReplacer(pairs...)
	texts := strings.NewReplacer(append([]string{"agent.timeout_sec", "max_agent_timeout_sec", "verifier.timeout_sec", "max_test_timeout_sec"}, pairs...)...)
	out := slices.Clone(findings)
	for i := range out {
		f := &out[i]
		f.File, f.Message, f.Hint = paths.Replace(f.File), texts.Replace(f.Message), texts.Replace(f.Hint)
		// A file of the build context may be the script itself, not a copy of it.
		if kept, rest, ok := strings.Cut(f.Message, sameAs); ok && strings.HasPrefix(rest, strings.TrimPrefix(kept, keeps)+":") {
			f.Message = keeps + rest
		}
	}
	return out
}
