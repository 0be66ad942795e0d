// Command house prints how this tree is built, in figures: sizes of packages, receivers and
// functions, and turns of phrase in comments. With directories as arguments, it prints the figures
// of those trees instead, so that other programs can be put next to it.
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dirs []string) error {
	if len(dirs) > 0 {
		var columns []column
		for _, dir := range dirs {
			f, err := measure(dir)
			if err != nil {
				return err
			}
			columns = append(columns, column{filepath.Base(dir), f.values()})
		}
		return write(out, columns)
	}
	f, err := measure(".")
	if err != nil {
		return err
	}
	if err := write(out, append([]column{{"Rollout", f.values()}, {"goal", goals}}, anchors...)); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nPackages of more than %d lines:\n", roomy)
	for _, p := range f.large() {
		fmt.Fprintf(out, "%7d  %s\n", p.lines, p.dir)
	}
	fmt.Fprintln(out, "\nReceivers with the most methods:")
	for _, r := range f.receivers[:min(10, len(f.receivers))] {
		fmt.Fprintf(out, "%7d  %s\n", r.methods, r.name)
	}
	fmt.Fprintln(out, "\nWith those of embedded fields:")
	for _, r := range f.promoted[:min(10, len(f.promoted))] {
		fmt.Fprintf(out, "%7d  %s\n", r.methods, r.name)
	}
	return nil
}

// column holds the figures of one tree, named like those of figures.values. Figures that were not
// measured are missing.
type column struct {
	name   string
	values map[string]string
}

// write writes a table with a line for each figure.
func write(out io.Writer, columns []column) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range columns {
		fmt.Fprintf(w, "\t%s", c.name)
	}
	fmt.Fprintln(w)
	for _, name := range names {
		fmt.Fprint(w, name)
		for _, c := range columns {
			fmt.Fprintf(w, "\t%s", cmp.Or(c.values[name], "-"))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// values returns the figures by their names, as texts.
func (f *figures) values() map[string]string {
	v := map[string]string{
		"lines without tests":             fmt.Sprint(f.lines),
		"lines of tests":                  fmt.Sprint(f.testLines),
		"median package, lines":           fmt.Sprint(middle(f.packages)),
		"share of lines in large rooms":   fmt.Sprintf("%d %%", percent(f.inLarge(), f.lines)),
		"directories in internal":         fmt.Sprint(f.internal),
		"largest receiver, methods":       "0",
		"the same with embedded fields":   "0",
		"longest function, lines":         fmt.Sprint(f.longest),
		"README, lines":                   fmt.Sprint(f.readme),
		"words of comments, in thousands": fmt.Sprint(f.words / 1000),
		"comments of over 100 columns":    fmt.Sprint(len(f.wide)),
	}
	if len(f.receivers) > 0 {
		v["largest receiver, methods"] = fmt.Sprint(f.receivers[0].methods)
	}
	if len(f.promoted) > 0 {
		v["the same with embedded fields"] = fmt.Sprint(f.promoted[0].methods)
	}
	for _, turn := range turns {
		v[turnName(turn)] = fmt.Sprint(f.per100k(turn))
	}
	return v
}

func turnName(turn string) string { return "“" + turn + "” in 100,000 words" }

// names are the figures in the order in which they are shown.
var names = func() []string {
	out := []string{
		"lines without tests", "lines of tests", "median package, lines", "share of lines in large rooms", "directories in internal",
		"largest receiver, methods", "the same with embedded fields", "longest function, lines", "README, lines", "words of comments, in thousands",
		"comments of over 100 columns",
	}
	for _, turn := range turns {
		out = append(out, turnName(turn))
	}
	return out
}()

// goals are the figures that this tree is to have.
var goals = map[string]string{
	"share of lines in large rooms": "30 %", "directories in internal": "14", "largest receiver, methods": "60", "README, lines": "130", "comments of over 100 columns": "0",
	turnName("what is"): "8", turnName("nobody"): "4", turnName("beside"): "2", turnName("what it"): "4",
	turnName("for people"): "2", turnName("of its own"): "2", turnName("has it"): "2",
}

func middle(packages []room) int {
	if len(packages) == 0 {
		return 0
	}
	lines := make([]int, 0, len(packages))
	for _, p := range packages {
		lines = append(lines, p.lines)
	}
	slices.Sort(lines)
	return lines[len(lines)/2]
}

func percent(part, whole int) int {
	if whole == 0 {
		return 0
	}
	return (100*part + whole/2) / whole
}

// skipped reports whether a directory has no source of the program: other people's, or files of
// tests.
func skipped(name string) bool {
	return name == "vendor" || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && name != "."
}
