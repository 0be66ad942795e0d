package prove

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// privatePath matches a file below the directories that exist in an environment only while the
// solution or the tests run.
var privatePath = regexp.MustCompile("(?:^|[\\s\"'`(=])(/(?:solution|oracle|tests)/([\\w./-]*\\w))")

// forbiddingWords matches words in lines that say what an agent must not do or does not have.
var forbiddingWords = regexp.MustCompile(`(?i)\b(?:not|never|no|without|avoid|cannot|don't|doesn't|won't|can't|mustn't|shouldn't|isn't|forbidden|prohibited|off-limits|hidden|unavailable|inaccessible|disallowed|cheat\w*)\b`)

// writingWords matches words in lines that say what an agent has to write.
var writingWords = regexp.MustCompile(`(?i)\b(?:write|written|save|saved|create|created|put|place|placed|store|stored|output|produce|produced|generate|generated|implement|add|export|deliver|submit)\b`)

// graderWords matches words in sentences that say how an agent's work is judged.
var graderWords = regexp.MustCompile(`(?i)\b(?:(?:auto)?grad(?:e|es|ed|er|ers|ing)|verif(?:ier|iers|ied|ication)|evaluat(?:e|es|ed|or|ion)|scor(?:e|es|ed|ing|er)|judged?|tested|checked|validated|harness|benchmark|CI)\b`)

// readingWords matches words that tell an agent to read or run the path that follows in the
// sentence.
var readingWords = regexp.MustCompile(`(?i)\b(?:run|rerun|execute|invoke|use|see|read|open|look|inspect|consult|refer|examine|study|follow|check|pass)\b`)

// sentenceEnds matches the ends of sentences in a line.
var sentenceEnds = regexp.MustCompile(`[.!?]\s+`)

// instructionLeak finds an instruction that sends the agent to a file of the task's own tests/ or
// solution/, which is not there while the agent works. It accepts paths that the agent has to
// write, that the image or a test has, sentences about the grader, and lines that forbid something.
// A sentence that tells the agent to run or to read the file always counts.
func instructionLeak(f file, all []file) []Finding {
	for _, at := range privatePath.FindAllSubmatchIndex(f.head, -1) {
		full, name := string(f.head[at[2]:at[3]]), string(f.head[at[4]:at[5]])
		dir, _, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
		own := "solution/" + name
		if dir == "tests" {
			own = "tests/" + name
		}
		start := bytes.LastIndexByte(f.head[:at[2]], '\n') + 1
		line, _, _ := bytes.Cut(f.head[start:], []byte("\n"))
		switch {
		case !slices.ContainsFunc(all, func(o file) bool { return o.name == own }):
		case !sendsTo(line, at[2]-start, at[3]-start):
		case namedBy(all, "environment/", "/"+dir), dir != "tests" && namedBy(all, "tests/", "/"+dir):
		default:
			return []Finding{{Rule: ruleInstructionLeak, Severity: Warning, File: f.name, Line: lineAt(f.head, at[2]),
				Message: fmt.Sprintf("the instruction names %s, which is not there while the agent works", full),
				Hint:    "describe the wanted result, not how it is tested"}}
		}
	}
	return nil
}

// sendsTo reports whether a line sends an agent to the path that is at from to to in it.
func sendsTo(line []byte, from, to int) bool {
	innocent := func(text []byte) bool {
		return forbiddingWords.Match(text) || writingWords.Match(text) || graderWords.Match(text)
	}
	if !innocent(line) {
		return true
	}
	begin, end := 0, len(line)
	for _, stop := range sentenceEnds.FindAllIndex(line, -1) {
		switch {
		case stop[1] <= from:
			begin = stop[1]
		case stop[0] >= to && stop[0] < end:
			end = stop[0]
		}
	}
	return readingWords.Match(line[begin:from]) && !innocent(line[begin:end])
}

// namedBy reports whether a file below prefix mentions a directory of the environment's root, or a
// path in it.
func namedBy(files []file, prefix, dir string) bool {
	return slices.ContainsFunc(files, func(f file) bool {
		if !f.text || !strings.HasPrefix(f.name, prefix) {
			return false
		}
		return hasWord(f.head, dir)
	})
}

// hasWord reports whether a text contains a path or a part of one, and not only as the end of a
// longer word.
func hasWord(text []byte, word string) bool {
	for from := 0; ; {
		at := bytes.Index(text[from:], []byte(word))
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(word)
		begins := start == 0 || !isNameByte(text[start-1]) && (word[0] != '/' || text[start-1] != '.' && text[start-1] != '/')
		if begins && (end == len(text) || !isNameByte(text[end])) {
			return true
		}
		from = end
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// minCopySize is the size from which equal files count as copies.
const minCopySize = 32

// The words of messages about copies.
const (
	keeps  = "the image keeps "
	sameAs = ", which is the same as "
)

// copies finds a solution or a verifier that the image keeps: a file of environment/ that equals
// solve.sh, a patch of the solution, test.sh or test_outputs.py, and that the Dockerfile copies and
// does not remove. Other files may be in both places, because the solution or a test often needs
// what the agent was given.
func copies(files []file, stages []stage) []Finding {
	if len(stages) == 0 {
		return nil
	}
	of, sizes := map[[sha256.Size]byte]string{}, map[int64]bool{}
	for _, f := range files {
		if (isSolution(f.name) || isVerifier(f.name)) && f.whole() && f.size >= minCopySize {
			sizes[f.size] = true
			if sum := sha256.Sum256(f.head); of[sum] == "" {
				of[sum] = f.name
			}
		}
	}
	var ignored []byte
	for _, f := range files {
		if f.name == "environment/.dockerignore" || f.name == "environment/Dockerfile.dockerignore" {
			ignored = append(ignored, f.head...)
		}
	}
	var out []Finding
	for _, f := range files {
		name, inside := strings.CutPrefix(f.name, "environment/")
		if !inside || !f.whole() || !sizes[f.size] {
			continue
		}
		original := of[sha256.Sum256(f.head)]
		if original == "" || bytes.Contains(ignored, []byte(path.Base(name))) {
			continue
		}
		line := keptAt(stages, name)
		if line == 0 {
			continue
		}
		finding := Finding{Rule: ruleSolutionInImage, Severity: Warning, File: dockerfile, Line: line,
			Message: keeps + f.name + sameAs + original + ": agents may find the solution", Hint: "do not copy it, or remove it in the step that uses it"}
		if isVerifier(original) {
			finding.Rule = ruleTestsInImage
			finding.Message = keeps + f.name + sameAs + original + ": agents may find the tests"
			finding.Hint = "do not copy it: tests/ is put in place when the agent is done"
		}
		out = append(out, finding)
	}
	return out
}

func isSolution(name string) bool {
	ext := path.Ext(name)
	return name == solutionScript || strings.HasPrefix(name, "solution/") && (ext == ".patch" || ext == ".diff")
}

func isVerifier(name string) bool { return name == testsScript || name == "tests/test_outputs.py" }

// keptAt returns the line of the Dockerfile that copies a file of environment/ into the image for
// good, or 0.
func keptAt(stages []stage, name string) int {
	line, dest := 0, ""
	copied := func(c instructions.SourcesAndDest, where []parser.Range) {
		if slices.ContainsFunc(c.SourcePaths, func(source string) bool { return copiesFile(source, name) }) {
			line, dest = firstLine(where), c.DestPath
		}
	}
	for _, s := range usedStages(stages) {
		for _, command := range s.Commands {
			switch c := command.(type) {
			case *instructions.CopyCommand:
				if c.From == "" {
					copied(c.SourcesAndDest, c.Location())
				}
			case *instructions.AddCommand:
				copied(c.SourcesAndDest, c.Location())
			case *instructions.RunCommand:
				if line > 0 && mayRemove(c, name, dest) {
					line = 0
				}
			}
		}
	}
	return line
}

// usedStages returns the stages that the image consists of, in the order of the build: the last
// one, and those below it.
func usedStages(stages []stage) []stage {
	var out []stage
	for at := len(stages) - 1; at >= 0; {
		out = append(out, stages[at])
		at = stageIndex(stages[:at], stages[at].base)
	}
	slices.Reverse(out)
	return out
}

// copiesFile reports whether a source of COPY or ADD includes a file of the build context.
func copiesFile(source, name string) bool {
	source = path.Clean(strings.TrimPrefix(source, "/"))
	if source == "." || source == name || strings.HasPrefix(name, source+"/") {
		return true
	}
	parts := strings.Split(name, "/")
	for n := range parts {
		if ok, _ := path.Match(source, strings.Join(parts[:n+1], "/")); ok {
			return true
		}
	}
	return false
}

// removers matches programs that may move or remove a file.
var removers = regexp.MustCompile(`(?:^|[\s;&|(/])(?:rm|mv|unlink|shred|find|git\s+clean|git\s+stash|truncate)\s`)

// mayRemove reports whether a step may remove a file that was copied to dest.
func mayRemove(run *instructions.RunCommand, name, dest string) bool {
	text := strings.Join(run.CmdLine, " ")
	for _, file := range run.Files {
		text += "\n" + file.Data
	}
	if !removers.MatchString(text) {
		return false
	}
	top, _, _ := strings.Cut(name, "/")
	signs := []string{path.Base(name), path.Clean(dest), path.Dir(path.Clean(dest)), top}
	if ext := path.Ext(name); ext != "" {
		signs = append(signs, "*"+ext)
	}
	return slices.ContainsFunc(signs, func(sign string) bool { return sign != "." && sign != "/" && hasWord([]byte(text), sign) })
}
