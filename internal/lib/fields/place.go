package fields

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/diag"
)

// Path is the path of a value in a file: keys, and indexes of lists as decimal numbers.
type Path []string

// Child returns the path of a key in the mapping at p.
func (p Path) Child(name string) Path { return append(slices.Clip(p), name) }

// Index returns the path of an entry in the list at p.
func (p Path) Index(i int) Path { return p.Child(strconv.Itoa(i)) }

// String returns the path as users write it: agents[0].env.MODEL.
func (p Path) String() string {
	var b strings.Builder
	for i, name := range p {
		switch {
		case i > 0 && IsIndex(name):
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// In returns " in agents[0]", or "" for the top level.
func (p Path) In() string {
	if len(p) == 0 {
		return ""
	}
	return " in " + p.String()
}

// IsIndex reports whether a part of a path is an index.
func IsIndex(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// Place is the origin of a value: a position in a file, or a flag, which has no lines.
type Place struct {
	File         string
	Line, Column int // from 1; 0: the whole file or flag
}

// IsFlag reports whether the place is a flag or a whole file.
func (p Place) IsFlag() bool { return p.Line == 0 }

// Lines maps offsets in a file to places.
type Lines struct {
	file string
	data []byte
	ends []int // offsets of the line breaks
	// last caches the last result with its column, as a line may be the whole file.
	last struct{ start, offset, column int }
}

// NewLines indexes a file's content.
func NewLines(file string, data []byte) *Lines {
	x := &Lines{file: file, data: data}
	for i, b := range data {
		if b == '\n' {
			x.ends = append(x.ends, i)
		}
	}
	return x
}

// At returns the position of a byte. Columns count characters, as in YAML.
func (x *Lines) At(offset int) Place {
	offset = min(max(offset, 0), len(x.data))
	line, start := sort.SearchInts(x.ends, offset), 0
	if line > 0 {
		start = x.ends[line-1] + 1
	}
	from, column := start, 1
	if x.last.column > 0 && x.last.start == start && x.last.offset <= offset {
		from, column = x.last.offset, x.last.column
	}
	column += utf8.RuneCount(x.data[from:offset])
	x.last.start, x.last.offset, x.last.column = start, offset, column
	return Place{x.file, line + 1, column}
}

// Problems collects the problems of a file: the first ones, and the number of the others. The zero
// value is empty.
type Problems struct {
	List  diag.List
	count map[diag.Severity]int
}

// MaxProblems is the number of problems of each severity that are kept.
const MaxProblems = 100

// Add adds an error.
func (p *Problems) Add(at Place, hint, format string, args ...any) {
	p.add(diag.Error, at, hint, format, args)
}

// Warn adds a warning.
func (p *Problems) Warn(at Place, hint, format string, args ...any) {
	p.add(diag.Warning, at, hint, format, args)
}

func (p *Problems) add(s diag.Severity, at Place, hint, format string, args []any) {
	if p.count == nil {
		p.count = map[diag.Severity]int{}
	}
	if p.count[s]++; p.count[s] <= MaxProblems {
		p.List = append(p.List, diag.Diagnostic{
			File: at.File, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...), Hint: hint, Severity: s,
		})
	}
}

// Full reports whether further problems of a severity are only counted. Then there is no point in
// searching for hints.
func (p *Problems) Full(s diag.Severity) bool { return p.count[s] >= MaxProblems }

// All returns the problems, sorted, with a note on the number of omitted ones.
func (p *Problems) All(file string) diag.List {
	p.List.Sort()
	for _, s := range []diag.Severity{diag.Error, diag.Warning} {
		if more := p.count[s] - MaxProblems; more > 0 {
			p.List = append(p.List, diag.Diagnostic{File: file, Severity: s, Message: fmt.Sprintf("and %d more of this kind", more)})
		}
	}
	p.count = nil
	return p.List
}
