package meter

import (
	"slices"
	"sync"
)

// Line is a queue of turns that wait for the same budget, so that none is overtaken for ever. The
// zero Line is ready to use. Its methods, and those of its places, are safe for concurrent use.
type Line struct {
	mu     sync.Mutex
	places []*Place
}

// Place is the place of one turn in a Line.
type Place struct {
	line  *Line
	first chan struct{}
}

// Join returns a place at the end of the line. It must be left.
func (l *Line) Join() *Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &Place{l, make(chan struct{})}
	if l.places = append(l.places, p); len(l.places) == 1 {
		close(p.first)
	}
	return p
}

// First returns a channel that is closed when all earlier places have left.
func (p *Place) First() <-chan struct{} { return p.first }

// IsFirst reports whether all earlier places have left.
func (p *Place) IsFirst() bool {
	select {
	case <-p.first:
		return true
	default:
		return false
	}
}

// Leave ends the wait. Further calls do nothing.
func (p *Place) Leave() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.places, p)
	if at < 0 {
		return
	}
	if l.places = slices.Delete(l.places, at, at+1); at == 0 && len(l.places) > 0 {
		close(l.places[0].first)
	}
}
