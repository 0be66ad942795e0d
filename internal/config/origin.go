package config

import (
	"sort"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/diag"
)

// origin is where a value was written: a position in a file, or a flag, which has no lines.
type origin struct {
	file         string
	line, column int
}

func (o origin) isFlag() bool { return o.line == 0 }

func (o origin) diagnostic(s diag.Severity, hint, message string) diag.Diagnostic {
	return diag.Diagnostic{File: o.file, Line: o.line, Column: o.column, Message: message, Hint: hint, Severity: s}
}

// lineIndex maps offsets to lines.
type lineIndex struct {
	file string
	data []byte
	ends []int // offsets of the line breaks
	// last caches the last result with its column, as a line may be the whole file.
	last struct{ start, offset, column int }
}

func newLineIndex(file string, data []byte) *lineIndex {
	x := &lineIndex{file: file, data: data}
	for i, b := range data {
		if b == '\n' {
			x.ends = append(x.ends, i)
		}
	}
	return x
}

// at returns the position of a byte. Columns count characters, as in YAML.
func (x *lineIndex) at(offset int) origin {
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
	return origin{x.file, line + 1, column}
}
