package ui

import (
	"io"
	"strings"
	"sync"
	"time"
)

// maxQueued is how many lines may wait for a slow reader before optional ones are dropped.
const maxQueued = 10_000

// printer writes lines in order from its own goroutine, so its callers never wait for the reader.
// It never drops lines that matter: a job has a limited number of them.
type printer struct {
	out    io.Writer
	idle   time.Duration // after this time without output, silent is called for a line
	silent func() string // called from the printer's goroutine; an empty line is not printed

	wake chan struct{}
	done chan struct{}

	mu     sync.Mutex
	queue  []string
	closed bool
}

// newPrinter starts a printer. With idle 0, silent is never called.
func newPrinter(out io.Writer, idle time.Duration, silent func() string) *printer {
	p := &printer{
		out: out, idle: idle, silent: silent,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go p.run()
	return p
}

// print queues a line, without its line break. With spare, the line may be dropped if the reader is
// slow.
func (p *printer) print(line string, spare bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || spare && len(p.queue) >= maxQueued {
		return
	}
	p.queue = append(p.queue, line+"\n")
	p.signal()
}

func (p *printer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// close writes the queued lines, but does not wait long for a stuck reader.
func (p *printer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signal()
	select {
	case <-p.done:
	case <-time.After(giveUp):
	}
}

func (p *printer) run() {
	defer close(p.done)
	var silence *time.Timer
	var quiet <-chan time.Time
	if p.idle > 0 {
		silence = time.NewTimer(p.idle)
		defer silence.Stop()
		quiet = silence.C
	}
	for {
		select {
		case <-p.wake:
		case <-quiet:
			if line := p.silent(); line != "" {
				p.print(line, true)
			}
		}
		if silence != nil {
			silence.Reset(p.idle)
		}
		if p.flush() {
			return
		}
	}
}

// flush writes the queued lines and reports whether they were the last. It ignores write errors:
// there is nowhere to report them, and the job must continue.
func (p *printer) flush() (last bool) {
	p.mu.Lock()
	lines := p.queue
	p.queue, last = nil, p.closed
	p.mu.Unlock()
	if len(lines) > 0 {
		_, _ = io.WriteString(p.out, strings.Join(lines, ""))
	}
	return last
}
