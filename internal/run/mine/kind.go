package mine

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/git"
)

// kind says what a file is for, as its name tells.
type kind int

const (
	other     kind = iota // documents, settings
	code                  // what tests can tell apart
	test                  // tests, and files that only they use
	generated             // by a program
	vendored              // copies of other projects
)

// languages maps the ends of the names of code to their language.
var languages = map[string]string{
	".go": "go", ".py": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascript",
	".ts": "typescript", ".tsx": "typescript", ".mts": "typescript", ".sh": "shell", ".bash": "shell",
	".rs": "rust", ".java": "java", ".kt": "kotlin", ".scala": "scala", ".c": "c", ".h": "c", ".cc": "c++", ".cpp": "c++", ".hpp": "c++",
	".rb": "ruby", ".php": "php", ".cs": "c#", ".swift": "swift", ".ex": "elixir", ".exs": "elixir", ".lua": "lua", ".pl": "perl",
}

// languageOf returns the language of a file; "" if it is no code.
func languageOf(name string) string { return languages[strings.ToLower(path.Ext(name))] }

var (
	vendorDirs    = []string{"vendor", "node_modules", "third_party", "thirdparty", "bower_components", "site-packages"}
	generatedDirs = []string{"dist", "__snapshots__", "__pycache__"}
	generatedEnds = []string{".pb.go", "_pb2.py", "_pb2_grpc.py", "_generated.go", ".gen.go", "_string.go", ".min.js", ".bundle.js", "_pb.js", ".g.cs"}
	testDirs      = []string{"test", "tests", "testdata", "__tests__", "spec", "fixtures"}
)

// kindOf returns the kind of a file by its name.
func kindOf(name string) kind {
	dirs := strings.Split(strings.ToLower(path.Dir(name)), "/")
	in := func(of []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return slices.Contains(of, dir) })
	}
	base := strings.ToLower(path.Base(name))
	switch {
	case strings.HasSuffix(base, ".snap"): // the runner of tests wrote it, and compares with it
		return test
	case in(vendorDirs):
		return vendored
	case in(generatedDirs), strings.HasPrefix(base, "zz_generated"),
		slices.ContainsFunc(generatedEnds, func(end string) bool { return strings.HasSuffix(base, end) }):
		return generated
	case in(testDirs), isTest(base):
		return test
	case languageOf(name) != "":
		return code
	}
	return other
}

// isTest reports whether a file has the name of a test.
func isTest(base string) bool {
	stem := strings.TrimSuffix(base, path.Ext(base))
	switch languageOf(base) {
	case "rust":
		return strings.HasSuffix(stem, "_test") || strings.HasSuffix(stem, "_tests") || stem == "test" || stem == "tests"
	case "go", "c", "c++", "ruby", "elixir":
		return strings.HasSuffix(stem, "_test") || strings.HasSuffix(stem, "_spec")
	case "python":
		return strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "_test") || base == "conftest.py"
	case "shell":
		return strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "_test")
	case "javascript", "typescript":
		return strings.HasSuffix(stem, ".test") || strings.HasSuffix(stem, ".spec") || strings.HasSuffix(stem, "-test") || strings.HasSuffix(stem, "_test")
	case "java", "kotlin", "scala", "c#", "swift", "php":
		return strings.HasSuffix(stem, "test") || strings.HasSuffix(stem, "tests")
	}
	return false
}

// isTarget reports whether a test file can be given to a runner. The others are data of tests.
func isTarget(name string) bool {
	dirs, base := strings.Split(path.Dir(name), "/"), strings.ToLower(path.Base(name))
	in := func(dir ...string) bool {
		return slices.ContainsFunc(dir, func(dir string) bool { return slices.Contains(dirs, dir) })
	}
	switch language := languageOf(name); {
	case language == "", base == "conftest.py", strings.HasSuffix(base, ".d.ts"):
		return false
	case isTest(base):
		return true
	case language == "rust": // cargo takes each file of tests
		return in("tests")
	case language == "javascript" || language == "typescript":
		return in("test", "__tests__") && !in("fixtures", "testdata", "__mocks__", "__fixtures__", "helpers")
	}
	return false
}

// saysGenerated reports whether a file says near its beginning that a program wrote it. Source: go
// help generate; others write alike.
func saysGenerated(text []byte) bool {
	head := text[:min(len(text), 2048)]
	return bytes.Contains(head, []byte("Code generated ")) && bytes.Contains(head, []byte("DO NOT EDIT")) ||
		bytes.Contains(head, []byte("@generated"))
}

// isBinary reports whether a file is no text. Source: git, buffer_is_binary.
func isBinary(text []byte) bool { return bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 }

// odd reports whether a name cannot stand in the files of a task, which have one a line.
func odd(name string) bool {
	return name == "" || len(name) > 1000 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Cf, r) })
}

// sorted are the changes of a commit by the kinds of their files.
type sorted map[kind][]git.Change

func sortChanges(changes []git.Change) sorted {
	out := sorted{}
	for _, c := range changes {
		k := kindOf(c.Name)
		out[k] = append(out[k], c)
	}
	return out
}
