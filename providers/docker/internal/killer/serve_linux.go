package killer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/processes"
)

// It begins here and not in main, so that most of the program is never made ready.
func init() {
	if filepath.Base(os.Args[0]) == Role {
		serve(os.Stdin, os.Stdout)
		os.Exit(0)
	}
}

// serve carries requests out, side by side, until there are no more: a killer ends with its client.
func serve(input io.Reader, output io.Writer) {
	var mu sync.Mutex
	answers := json.NewEncoder(output)
	for requests := json.NewDecoder(input); ; {
		var r Request
		if requests.Decode(&r) != nil {
			return
		}
		go func() {
			a := answer(r)
			mu.Lock()
			defer mu.Unlock()
			_ = answers.Encode(a)
		}()
	}
}

func answer(r Request) Answer {
	a := Answer{ID: r.ID}
	start, err := do(r)
	switch {
	case r.Op == Find && errors.Is(err, unix.ESRCH):
		a.Gone = true
	case err != nil:
		a.Error = err.Error()
	}
	a.Start = start
	return a
}

func do(r Request) (start int64, err error) {
	c, err := processes.OpenContainer(r.First)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if r.Op == Find {
		found, err := c.Find(r.Root)
		return found.Start, err
	}
	root := processes.Process{PID: r.Root, Start: r.Start}
	var others []processes.Process
	for _, pid := range r.Others {
		other, err := c.Find(pid)
		switch {
		case err == nil:
			others = append(others, other)
		case !errors.Is(err, unix.ESRCH):
			return 0, err
		}
	}
	switch r.Op {
	case Strike:
		return 0, c.Strike(root, others...)
	case Kill:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Seconds*float64(time.Second)))
		defer cancel()
		return 0, c.Kill(ctx, root, others...)
	}
	return 0, errors.New("unknown request: " + string(r.Op))
}
