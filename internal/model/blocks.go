package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// maxBlocks bounds the parts of an answer, and maxAnswer their text, in bytes. Parts beyond these
// limits are passed on, but not kept.
const (
	maxBlocks = 4096
	maxAnswer = 16 << 20
)

// blocks collects the parts of a streamed answer, which come in pieces.
type blocks struct {
	parts map[int]*block
	size  int
}

type block struct {
	part      Part
	text      strings.Builder
	arguments strings.Builder
}

// at returns the block with an index, or nil if there are too many.
func (b *blocks) at(index int, kind PartType) *block {
	if b.parts == nil {
		b.parts = map[int]*block{}
	}
	if b.parts[index] == nil {
		if len(b.parts) >= maxBlocks {
			return nil
		}
		b.parts[index] = &block{part: Part{Type: kind}}
	}
	return b.parts[index]
}

// put sets the first state of a block, from the event that begins it.
func (b *blocks) put(index int, p Part) {
	if one := b.at(index, p.Type); one != nil {
		one.text.WriteString(p.Text)
		p.Text = ""
		one.part = p
	}
}

// add adds a piece of the text or of the arguments.
func (b *blocks) add(index int, text, arguments string) {
	one := b.at(index, PartText)
	if one == nil || b.size+len(text)+len(arguments) > maxAnswer {
		return
	}
	b.size += len(text) + len(arguments)
	one.text.WriteString(text)
	one.arguments.WriteString(arguments)
}

// all returns the parts, in order.
func (b *blocks) all() []Part {
	var out []Part
	for _, index := range slices.Sorted(maps.Keys(b.parts)) {
		one := b.parts[index]
		p := one.part
		p.Text = one.text.String()
		if p.Type == PartCall && p.Arguments == nil {
			p.Arguments = raw(one.arguments.String())
		}
		if p.Type == PartText && p.Text == "" {
			continue
		}
		out = append(out, p)
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func firstNonEmpty(texts ...string) string { return cmp.Or(texts...) }
