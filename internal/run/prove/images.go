package prove

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/org/rollout-action/internal/core/task"
)

// movingTags lists tags that name a different image from time to time, alone or before a dash.
var movingTags = []string{
	"latest", "stable", "edge", "nightly", "main", "master", "dev", "devel", "rolling", "lts", "current", "next", "canary",
	"testing", "unstable", "sid",
}

// fixedTag matches a date or a commit in a tag, as in stable-20260112-slim and main-4f0c8d1: such
// an image does not change.
var fixedTag = regexp.MustCompile(`(?i)(?:^|[-_.])(?:g|sha-?)?(?:\d{6,}|\d{4}-\d\d(?:-\d\d)?|[0-9a-f]*\d[0-9a-f]{6,}|[0-9a-f]{7,}\d[0-9a-f]*)(?:[-_.]|$)`)

// unpinned returns the reason why the name of an image may stand for another image later, or "".
func unpinned(image string) string {
	if strings.Contains(image, "@") { // a digest
		return ""
	}
	_, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	word, rest, _ := strings.Cut(tag, "-")
	switch {
	case tag == "":
		return fmt.Sprintf("the image %s has no tag, so it is the newest one", image)
	case slices.Contains(movingTags, word) && !fixedTag.MatchString(rest):
		return fmt.Sprintf("the tag of the image %s moves: it may be another image tomorrow", image)
	}
	return ""
}

func unpinnedImage(image, file string, line int) []Finding {
	message := unpinned(image)
	if message == "" {
		return nil
	}
	return []Finding{{Rule: ruleUnpinnedImage, Severity: Warning, File: file, Line: line, Message: message,
		Hint: "name a version, such as debian:bookworm; a digest (@sha256:…) never changes"}}
}

var imageKey = regexp.MustCompile(`(?m)^[ \t]*(?:environment\.)?docker_image[ \t]*=`)

// imageOfConfig checks the image that task.toml names.
func imageOfConfig(t *task.Task, f file) []Finding {
	image := t.Config.Environment.DockerImage
	if image == "" {
		return nil
	}
	line := 0
	if at := imageKey.FindIndex(f.head); at != nil {
		line = lineAt(f.head, at[1]-1)
	}
	return unpinnedImage(image, f.name, line)
}

// stage is one stage of a Dockerfile: a FROM and the instructions after it.
type stage struct {
	*instructions.Stage
	base string // with arguments filled in; "" if that is not possible
	lex  *shell.Lex
}

// word returns a word without quotes; ok is false if it has variables.
func (s stage) word(text string) (plain string, ok bool) {
	plain, unset, err := s.lex.ProcessWord(text, shell.EnvsFromSlice(nil))
	return plain, err == nil && len(unset) == 0 && !strings.Contains(text, "$")
}

// dockerfileRules checks a Dockerfile of a task: that of its image or, with the task as its tests
// see it, that of their image. The build context is the Dockerfile's directory.
func dockerfileRules(t *task.Task, f parsedDockerfile) []Finding {
	stages := f.stages
	if err := f.err; err != nil {
		line := 0
		if at, ok := errors.AsType[*parser.LocationError](err); ok && len(at.Locations) > 0 && len(at.Locations[0]) > 0 {
			line = at.Locations[0][0].Start.Line
		}
		finding := Finding{Rule: ruleDockerfile, Severity: Error, File: f.name, Line: line, Message: err.Error(), Hint: "BuildKit will say the same"}
		if t.Config.Environment.DockerImage != "" || foreignSyntax(f.head) { // it is not built, or by a frontend with other instructions
			finding.Severity = Warning
		}
		return []Finding{finding}
	}
	var out []Finding
	for i, s := range stages {
		if s.base != "" && s.base != "scratch" && stageIndex(stages[:i], s.base) < 0 {
			out = append(out, unpinnedImage(s.base, f.name, firstLine(s.Location))...)
		}
		for _, command := range s.Commands {
			if from, ok := command.(*instructions.CopyCommand); ok && isImage(stages[:i], from.From) {
				out = append(out, unpinnedImage(from.From, f.name, firstLine(from.Location()))...)
			}
		}
	}
	out = append(out, missingSources(t, f.file, stages)...)
	if f.name == dockerfile && len(stages) > 0 && t.Config.Environment.WorkDir == "" && !hasWorkdir(stages, len(stages)-1) {
		last := stages[len(stages)-1]
		out = append(out, Finding{Rule: ruleWorkdir, Severity: Warning, File: f.name, Line: firstLine(last.Location),
			Message: "there is no WORKDIR, so the agent begins in /, among files that do not belong to the task",
			Hint:    "add WORKDIR, such as WORKDIR /app"})
	}
	return out
}

// missingSources finds files that a Dockerfile copies and that the build context does not have. It
// skips patterns and variables, and stages that the image does not use, which may not be built.
func missingSources(t *task.Task, f file, stages []stage) []Finding {
	if t.Config.Environment.DockerImage != "" {
		return nil // it is not built
	}
	if _, err := fs.Stat(t.FS, "environment/docker-compose.yaml"); !errors.Is(err, fs.ErrNotExist) {
		return nil // that file may name another build context; loading the task finds it
	}
	var out []Finding
	context := path.Dir(f.name)
	if f.name == dockerfile {
		context = t.Files().Context
	}
	for _, s := range usedStages(stages) {
		for _, command := range s.Commands {
			var sources []string
			var where []parser.Range
			switch c := command.(type) {
			case *instructions.CopyCommand:
				if c.From != "" || c.Parents {
					continue
				}
				sources, where = c.SourcePaths, c.Location()
			case *instructions.AddCommand:
				sources, where = c.SourcePaths, c.Location()
			}
			for _, source := range sources {
				source, ok := s.word(source)
				if !ok || strings.ContainsAny(source, `*?[]\`) || strings.Contains(source, "://") || strings.HasPrefix(source, "git@") || strings.HasPrefix(source, "github.com/") {
					continue
				}
				name := path.Join(f.step, context, path.Join("/", source)) // nothing leads out of the context
				if _, err := fs.Stat(t.FS, name); !errors.Is(err, fs.ErrNotExist) {
					continue
				}
				hint := fmt.Sprintf("the paths of COPY and ADD begin in %s/: ", context)
				if rest, ok := strings.CutPrefix(path.Clean(source), context+"/"); ok {
					hint += "name it " + rest
				} else {
					hint += "put the file there"
				}
				out = append(out, Finding{Rule: ruleCopySource, Severity: Error, File: f.name, Line: firstLine(where),
					Message: fmt.Sprintf("the build needs %s, which does not exist", name), Hint: hint})
			}
		}
	}
	return out
}

// foreignSyntax reports whether a Dockerfile names a frontend other than Docker's own.
func foreignSyntax(text []byte) bool {
	syntax, _, _, ok := parser.DetectSyntax(text)
	return ok && !strings.HasPrefix(strings.TrimPrefix(syntax, "docker.io/"), "docker/dockerfile:")
}

// isImage reports whether COPY --from names an image and not a stage.
func isImage(before []stage, from string) bool {
	_, err := strconv.Atoi(from)
	return from != "" && err != nil && !strings.Contains(from, "$") && stageIndex(before, from) < 0
}

// stageIndex returns the index of the stage with that name, or -1.
func stageIndex(stages []stage, name string) int {
	return slices.IndexFunc(stages, func(s stage) bool { return s.Name != "" && strings.EqualFold(s.Name, name) })
}

// rootWorkdir lists official images that are known to set no WORKDIR.
// Source: the Dockerfiles of docker-library.
var rootWorkdir = []string{
	"scratch", "almalinux", "alpine", "amazonlinux", "archlinux", "buildpack-deps", "busybox", "debian", "eclipse-temurin", "fedora",
	"gcc", "node", "python", "rockylinux", "ruby", "rust", "ubuntu",
}

// hasWorkdir reports whether a stage or its base sets a WORKDIR. It reports true for unknown
// images.
func hasWorkdir(stages []stage, at int) bool {
	s := stages[at]
	for _, command := range s.Commands {
		if _, ok := command.(*instructions.WorkdirCommand); ok {
			return true
		}
	}
	if base := stageIndex(stages[:at], s.base); base >= 0 {
		return hasWorkdir(stages, base)
	}
	image, _, _ := strings.Cut(s.base, "@")
	for _, mirror := range []string{"docker.io/", "public.ecr.aws/docker/", "mirror.gcr.io/", "library/"} {
		image = strings.TrimPrefix(image, mirror)
	}
	image, _, _ = strings.Cut(image, ":")
	return !slices.Contains(rootWorkdir, image)
}

// parsedDockerfile is a Dockerfile with its stages, as BuildKit parses it. There are none if it
// cannot be parsed, or is too long.
type parsedDockerfile struct {
	file
	stages []stage
	err    error
}

func parseDockerfile(f file) parsedDockerfile {
	if !f.whole() {
		return parsedDockerfile{file: f}
	}
	stages, err := stagesOf(f.head)
	return parsedDockerfile{f, stages, err}
}

// stagesOf returns the stages of a Dockerfile.
func stagesOf(text []byte) ([]stage, error) {
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return nil, fmt.Errorf("line %d has a zero byte: this is not a text file", lineAt(text, at))
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	// A linter that finds nothing: without a linter, a comment like "# check=x" in the middle of a
	// file makes the parser panic.
	from, global, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{SkipAll: true}))
	if err != nil {
		return nil, err
	}
	lex := shell.NewLex(parsed.EscapeToken)
	args := arguments(lex, global)
	var out []stage
	for i := range from {
		base, unset, err := lex.ProcessWord(from[i].BaseName, args)
		if err != nil || len(unset) > 0 {
			base = ""
		}
		out = append(out, stage{&from[i], base, lex})
	}
	return out, nil
}

// arguments returns the defaults of the ARGs before the first FROM.
func arguments(lex *shell.Lex, global []instructions.ArgCommand) shell.EnvGetter {
	var pairs []string
	for _, command := range global {
		for _, arg := range command.Args {
			if arg.Value == nil {
				continue
			}
			if value, _, err := lex.ProcessWord(*arg.Value, shell.EnvsFromSlice(pairs)); err == nil {
				pairs = append(pairs, arg.Key+"="+value)
			}
		}
	}
	return shell.EnvsFromSlice(pairs)
}

func firstLine(where []parser.Range) int {
	if len(where) == 0 {
		return 0
	}
	return max(where[0].Start.Line, 1)
}
