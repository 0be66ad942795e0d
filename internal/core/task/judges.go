package task

import (
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task/taskdir"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// maxJudgeFile is the maximum size of a prompt_file or a verdict_file, in bytes.
const maxJudgeFile = 1 << 20

// JudgeAt returns the place of a key about judges in task.toml: judges[0].prompt, reward.
func (t *Task) JudgeAt(p fields.Path) diag.Diagnostic {
	at := fields.Place{File: t.File(configFile)}
	if t.variables.root != nil {
		place := t.variables.root.Locate(p, false)
		at.Line, at.Column = place.Line, place.Column
	}
	return diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column}
}

// judges reads the files that judges name, and checks the judges as far as that is possible without
// a job. path returns the name of a task's file for problems.
func (r *reader) judges(fsys fs.FS, judges []judge.Spec, path func(file string) string) {
	names := map[string]int{}
	for i := range judges {
		p := fields.Path{"judges"}.Index(i)
		if r.Bad(p) {
			continue
		}
		s := &judges[i]
		folded := strings.ToLower(s.Name)
		if first, twice := names[folded]; twice && s.Name != "" {
			r.Problem(p.Child("name"), "rename one of them", "two judges are called %q: judges[%d] and judges[%d]; case does not count", fields.Shorten(s.Name), first, i)
		} else {
			names[folded] = i
		}
		prompt, verdict := s.PromptFile, s.VerdictFile
		if text, ok := r.judgeFile(fsys, &s.PromptFile, s.Prompt != "", p, "prompt"); ok {
			s.Prompt = string(text)
		}
		if text, ok := r.judgeFile(fsys, &s.VerdictFile, len(s.Verdict) > 0, p, "verdict"); ok {
			if err := bounded.Unmarshal(text, &s.Verdict); err != nil || s.Verdict == nil {
				r.Problem(p.Child("verdict_file"), "write a JSON Schema in JSON", "%q: it is no JSON object", p.Child("verdict_file"))
			}
			whole(s.Verdict)
		}
		if r.BadBelow(p) {
			continue
		}
		_, problems := judge.Compile(*s)
		for _, problem := range problems {
			at := slices.Concat(p, problem.Key)
			file := map[string]string{"prompt": prompt, "verdict": verdict}[problem.Key[:min(len(problem.Key), 1)].String()]
			switch {
			case r.Bad(at):
			case file != "":
				r.Spoil(at)
				r.Add(fields.Place{File: path(file), Line: problem.Line}, problem.Hint, "%q: %s", at, problem.Message)
			case problem.Line > 0:
				r.Problem(at, problem.Hint, "%q: line %d: %s", at, problem.Line, problem.Message)
			default:
				r.Problem(at, problem.Hint, "%q: %s", at, problem.Message)
			}
		}
	}
}

// judgeFile returns the text of the file that a key with the suffix _file names, and empties the
// key. ok is false if there is none.
func (r *reader) judgeFile(fsys fs.FS, file *string, set bool, p fields.Path, key string) (text []byte, ok bool) {
	at := p.Child(key + "_file")
	name := *file
	*file = ""
	switch {
	case name == "" || r.Bad(at):
		return nil, false
	case set:
		r.Problem(at, "remove one of them", "%q and %s say the same", at, key)
		return nil, false
	case !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`):
		r.Problem(at, "write a path below the task's directory, such as judge.md", "%q: %q is not in the task", at, fields.Shorten(name))
		return nil, false
	}
	text, err := readBounded(fsys, strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), "./"))
	switch {
	case err != nil:
		r.Problem(at, "write the path of a file in the task's directory", "%q: %s cannot be read: %s", at, fields.Shorten(name), reason(err))
		return nil, false
	case !utf8.Valid(text) || strings.ContainsRune(string(text), 0):
		r.Problem(at, "", "%q: %s is not text in UTF-8", at, fields.Shorten(name))
		return nil, false
	case strings.TrimSpace(string(text)) == "":
		r.Problem(at, "", "%q: %s is empty", at, fields.Shorten(name))
		return nil, false
	}
	return []byte(strings.TrimPrefix(string(text), "\ufeff")), true
}

func readBounded(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, taskdir.ErrNotRegular
	case info.Size() > maxJudgeFile:
		return nil, fmt.Errorf("it is larger than %d MiB", maxJudgeFile>>20)
	}
	return fs.ReadFile(fsys, name)
}

// whole converts whole numbers in a JSON value to the type that package fields uses.
func whole(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = whole(v[name])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v)
		}
	}
	return value
}
