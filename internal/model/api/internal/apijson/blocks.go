package apijson

import (
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/model"
)

// MaxParts bounds the parts of an answer, and MaxAnswer their text, in bytes. Parts beyond these
// limits are passed on, but not kept.
const (
	MaxParts  = 4096
	MaxAnswer = 16 << 20
)

// Blocks collects the parts of a streamed answer, which come in pieces.
type Blocks struct {
	parts map[int]*Block
	size  int
}

// Block is a part of a streamed answer.
type Block struct {
	Part      model.Part
	text      strings.Builder
	arguments strings.Builder
}

// At returns the block with an index, or nil if there are too many.
func (b *Blocks) At(index int, kind model.PartType) *Block {
	if b.parts == nil {
		b.parts = map[int]*Block{}
	}
	if b.parts[index] == nil {
		if len(b.parts) >= MaxParts {
			return nil
		}
		b.parts[index] = &Block{Part: model.Part{Type: kind}}
	}
	return b.parts[index]
}

// Put sets the first state of a block, from the event that begins it.
func (b *Blocks) Put(index int, p model.Part) {
	if one := b.At(index, p.Type); one != nil {
		one.text.WriteString(p.Text)
		p.Text = ""
		one.Part = p
	}
}

// Add adds a piece of the text or of the arguments.
func (b *Blocks) Add(index int, text, arguments string) {
	one := b.At(index, model.PartText)
	if one == nil || b.size+len(text)+len(arguments) > MaxAnswer {
		return
	}
	b.size += len(text) + len(arguments)
	one.text.WriteString(text)
	one.arguments.WriteString(arguments)
}

// All returns the parts, in order.
func (b *Blocks) All() []model.Part {
	var out []model.Part
	for _, index := range slices.Sorted(maps.Keys(b.parts)) {
		one := b.parts[index]
		p := one.Part
		p.Text = one.text.String()
		if p.Type == model.PartCall && p.Arguments == nil {
			p.Arguments = Arguments(one.arguments.String())
		}
		if p.Type == model.PartText && p.Text == "" {
			continue
		}
		out = append(out, p)
	}
	return out
}
