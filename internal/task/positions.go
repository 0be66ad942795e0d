package task

import (
	"bytes"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// maxKeyPath is the maximum length of recorded key paths, such as verifier.env.KEY. Hostile documents have far longer ones.
const maxKeyPath = 3

// positions holds the positions of the keys in a TOML document.
type positions struct {
	offsets map[string]int // key path, joined by NUL -> byte offset of its first occurrence
	lines   []int          // byte offset of each line's begin
}

// positionsOf indexes a document that has been decoded without error. It needs go-toml's parser, because the decoder only
// gives positions of syntax errors.
func positionsOf(content []byte) positions {
	p := positions{offsets: map[string]int{}, lines: []int{0}}
	for i, b := range content {
		if b == '\n' {
			p.lines = append(p.lines, i+1)
		}
	}
	var parser unstable.Parser
	parser.Reset(content)
	var current []string // the table that key-values belong to
	for parser.NextExpression() {
		e := parser.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			current = p.addKey(nil, e)
		case unstable.KeyValue:
			p.addKeyValue(current, e)
		}
	}
	return p
}

// addKey records every step of a node's dotted key below parent. It returns the path, cut to maxKeyPath.
func (p *positions) addKey(parent []string, node *unstable.Node) []string {
	path := parent[:len(parent):len(parent)]
	for key := node.Key(); len(path) < maxKeyPath && key.Next(); {
		path = append(path, string(key.Node().Data))
		id := strings.Join(path, "\x00")
		if _, seen := p.offsets[id]; !seen {
			p.offsets[id] = int(key.Node().Raw.Offset)
		}
	}
	return path
}

func (p *positions) addKeyValue(parent []string, node *unstable.Node) {
	path := p.addKey(parent, node)
	if node.Value().Kind != unstable.InlineTable || len(path) == maxKeyPath {
		return
	}
	for entries := node.Value().Children(); entries.Next(); {
		p.addKeyValue(path, entries.Node())
	}
}

// of returns the line and column (in bytes, both from 1) of a key, or zeros.
func (p *positions) of(path []string) (line, column int) {
	offset, ok := p.offsets[strings.Join(path, "\x00")]
	if !ok {
		return 0, 0
	}
	line = sort.SearchInts(p.lines, offset+1)
	return line, offset - p.lines[line-1] + 1
}

// tooManyKeys returns the line at which a document exceeds maxKeys, or 0. It stops at a syntax error.
func tooManyKeys(content []byte) int {
	var parser unstable.Parser
	parser.Reset(content)
	keys := 0
	var count func(node *unstable.Node, depth int)
	count = func(node *unstable.Node, depth int) {
		switch node.Kind {
		case unstable.KeyValue:
			for key := node.Key(); key.Next(); {
				keys++
			}
			count(node.Value(), depth+1)
		case unstable.Table, unstable.ArrayTable:
			for key := node.Key(); key.Next(); {
				keys++
			}
		case unstable.InlineTable, unstable.Array:
			for entries := node.Children(); entries.Next() && keys <= maxKeys && depth < maxNesting; {
				count(entries.Node(), depth+1)
			}
		}
	}
	for parser.NextExpression() {
		e := parser.Expression()
		if count(e, 0); keys <= maxKeys {
			continue
		}
		key := e.Key()
		if !key.Next() {
			return 1
		}
		return 1 + bytes.Count(content[:key.Node().Raw.Offset], []byte("\n"))
	}
	return 0
}

// maxNesting bounds how deeply keys are counted.
const maxNesting = 1000
