package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkReads compares the files that tests have read with the inputs of their parts. dir contains a
// log of each test program, as written by -test.testlogfile, in a file NAME.log, and the working
// directory of the program in NAME.dir. It prints a line for each file of the repository that is
// not an input, and fails if there is one.
func checkReads(dir string, out io.Writer) error {
	t, err := treeHere()
	if err != nil {
		return err
	}
	all, err := parts(t.packages)
	if err != nil {
		return err
	}
	inputs := map[string][]string{} // of parts with the tests of one package, by its directory
	for _, p := range all {
		if name, ok := strings.CutPrefix(p.name, "tests ./"); ok {
			if inputs[name], _, err = t.inputs(p); err != nil {
				return err
			}
		}
	}
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		return fmt.Errorf("%s has no logs of tests", dir)
	}
	missing := 0
	for _, log := range logs {
		began, err := os.ReadFile(strings.TrimSuffix(log, ".log") + ".dir")
		if err != nil {
			return err
		}
		text, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		at := strings.TrimSpace(string(began))
		of, err := filepath.Rel(top, at)
		if err != nil {
			return err
		}
		for _, file := range filesRead(string(text), at, top) {
			if t.digests[file] != "" && !slices.Contains(inputs[filepath.ToSlash(of)], file) {
				fmt.Fprintf(out, "the tests of %s read %s, which is not among their inputs (internal/test/testsets/parts.go)\n", of, file)
				missing++
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d files are no inputs", missing)
	}
	return nil
}

// filesRead returns the paths below top, with slashes, that were opened or examined according to a
// log of a test. dir is the initial working directory of the test.
func filesRead(log, dir, top string) []string {
	var files []string
	for line := range strings.Lines(log) {
		verb, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if verb != "open" && verb != "stat" && verb != "chdir" {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if verb == "chdir" {
			dir = name
			continue
		}
		if file, err := filepath.Rel(top, name); err == nil && filepath.IsLocal(file) {
			files = append(files, filepath.ToSlash(file))
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
