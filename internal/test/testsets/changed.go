package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The states of a part.
const (
	due    = "run"    // there is no record for its inputs
	passed = "passed" // it has passed with the same inputs on this machine
	same   = "same"   // its inputs are those of the base
)

// changed prints for each part of CI whether it has to run: a line with its state, its name, the
// digest of its inputs and, if it is recorded, the record, separated by tabs.
//
// Records are files that are named after the digests of parts that have passed. base is the
// directory of the checkout that the change begins at.
func changed(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("changed", flag.ContinueOnError)
	records := flags.String("records", "", "the directory of records of what has passed on this machine")
	base := flags.String("base", "", "the directory of a checkout to compare with")
	machine := flags.String("machine", "", "what on this machine matters to tests, such as versions")
	tools := map[string]string{}
	flags.Func("tool", "NAME=VERSION of a program that some tests run", func(text string) error {
		name, version, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=VERSION", text)
		}
		tools[name] = version
		return nil
	})
	all := flags.Bool("all", false, "everything has to run, whatever is known")
	if err := flags.Parse(args); err != nil {
		return err
	}
	digests, names, err := digestsHere(*machine, tools)
	if err != nil {
		return err
	}
	var before map[string]string
	if *base != "" {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		if err := os.Chdir(*base); err != nil {
			return err
		}
		before, _, err = digestsHere(*machine, tools)
		if err := os.Chdir(here); err != nil {
			return err
		}
		if err != nil { // the base may lack a part, or a file that one reads
			fmt.Fprintln(os.Stderr, "testsets: the base cannot be read, so everything counts as changed:", err)
		}
	}
	for _, name := range names {
		state, record := due, ""
		if !*all {
			text, err := os.ReadFile(filepath.Join(*records, digests[name]))
			switch {
			case *records != "" && err == nil:
				state, record = passed, strings.TrimSpace(string(text))
			case before[name] == digests[name]:
				state = same
			}
		}
		if _, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", state, name, digests[name], record); err != nil {
			return err
		}
	}
	return nil
}

// digestsHere returns the digests of all parts of the checkout in the working directory, and their
// sorted names. tools has the versions of programs.
func digestsHere(machine string, tools map[string]string) (digests map[string]string, names []string, err error) {
	t, err := treeHere()
	if err != nil {
		return nil, nil, err
	}
	all, err := parts(t.packages)
	if err != nil {
		return nil, nil, err
	}
	digests = map[string]string{}
	for _, p := range all {
		versions := machine
		for _, tool := range p.tools {
			versions += fmt.Sprintf(" %s %s", tool, tools[tool])
		}
		if digests[p.name], err = t.digest(p, versions); err != nil {
			return nil, nil, err
		}
		names = append(names, p.name)
	}
	return digests, names, nil
}
