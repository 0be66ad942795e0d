package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPurePackagesStartNoGoroutine searches the text of the packages, which the rule parses.
func TestPurePackagesStartNoGoroutine(t *testing.T) {
	tree, _ := thisTree(t)
	names, err := pure(tree.packages)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"./internal/core/report", "./internal/core/gate", "./internal/test/testsets", "./reporters/junit"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among the packages that only compute", name)
		}
	}
	for _, name := range []string{"./internal/model/gateway", "./internal/run/job/merge", "./providers/sandbox", "./internal/app", "./internal/core/environment"} {
		if slices.Contains(names, name) {
			t.Errorf("%s is among the packages that only compute", name)
		}
	}
	starts := regexp.MustCompile(`(?m)^\s*go (func\b|\w[\w.]*\()|\.Go\(|\.Parallel\(\)|"net/http"`)
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join("../../..", name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", name, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if found := starts.Find(text); found != nil && !slices.Contains(simulates, name) && name != "./internal/test/testsets" {
				t.Errorf("%s is tested without the race detector, but %s has %q", name, file, found)
			}
		}
	}
}

func TestWhatStartsAGoroutine(t *testing.T) {
	for _, tc := range []struct {
		text string
		want bool
	}{
		{"func f() { go f() }", true},
		{"func f() { go func() {}() }", true},
		{"import \"sync\"\nfunc f(w *sync.WaitGroup) { w.Go(func() {}) }", true},
		{"import \"testing\"\nfunc TestA(t *testing.T) { t.Parallel() }", true},
		{"import \"context\"\nvar f = context.AfterFunc", true},
		{"import _ \"net/http/httptest\"", true},
		{"import _ \"os/signal\"", true},
		{"// go f()\nvar text = \"go f()\"", false},
		{"import \"os/exec\"\nvar f = exec.Command", false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package p\n"+tc.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := startsGoroutines(dir, []string{"a.go"}); err != nil || got != tc.want {
			t.Errorf("%s: %t, %v", strings.ReplaceAll(tc.text, "\n", "; "), got, err)
		}
	}
}
