package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

// Limits of a file. A larger file is an error, so that a hostile one costs little memory.
const (
	MaxLine  = 4 << 20
	MaxLines = 100_000
	maxBytes = 256 << 20
)

// Read returns the points in a file, the oldest first and each job once. Errors name label and the
// line.
func Read(r io.Reader, label string) ([]Point, error) {
	var points []Point
	lines := bufio.NewScanner(io.LimitReader(r, maxBytes+1))
	lines.Buffer(nil, MaxLine)
	n, size := 0, 0
	for lines.Scan() {
		n++
		size += len(lines.Bytes()) + 1
		if n > MaxLines || size > maxBytes {
			return nil, fmt.Errorf("%s:%d: the history has more than %d lines or %d MB", label, n, MaxLines, maxBytes>>20)
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		p, err := parse(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", label, n, err)
		}
		points = append(points, p)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%s:%d: the line has more than %d MB", label, n+1, MaxLine>>20)
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", label, err)
	}
	return Sorted(points), nil
}

// Sorted sorts points, the oldest first, and removes duplicates of a job.
func Sorted(points []Point) []Point {
	points = slices.Clone(points)
	slices.SortStableFunc(points, oldestFirst)
	return slices.CompactFunc(points, Point.same)
}

// parse decodes a line.
func parse(line []byte) (Point, error) {
	var head struct {
		Format *int `json:"history_format"`
	}
	if err := bounded.Unmarshal(line, &head); err != nil {
		return Point{}, fmt.Errorf("this is no line of a history: %w", err)
	}
	switch {
	case head.Format == nil || *head.Format < 1:
		return Point{}, errors.New("this is no line of a history: it has no history_format")
	case *head.Format > Format:
		return Point{}, fmt.Errorf("a newer version of Rollout wrote this line (history_format %d; this version reads up to %d)", *head.Format, Format)
	}
	var p Point
	if err := bounded.Unmarshal(line, &p); err != nil {
		return Point{}, fmt.Errorf("this is no line of a history: %w", err)
	}
	if err := p.check(); err != nil {
		return Point{}, err
	}
	return p, nil
}

// Add appends a point to a file, which must not be a link, and which it creates if it does not
// exist. It returns false if the file has the job already. A lock makes calls of several processes
// safe; Add waits for it until ctx ends. If a line of the file cannot be read, Add changes nothing.
func Add(ctx context.Context, path string, p Point) (added bool, err error) {
	if err := p.check(); err != nil {
		return false, fmt.Errorf("job %q: %w", p.JobName, err)
	}
	line, err := json.Marshal(p)
	if err != nil {
		return false, err
	}
	if len(line) >= MaxLine {
		return false, fmt.Errorf("%s: the line of job %q has more than %d MB", path, p.JobName, MaxLine>>20)
	}
	f, err := nofollow.OpenAppend(path, 0o644)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := lock(ctx, f); err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	points, err := Read(f, path)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(points, p.same) {
		return false, nil
	}
	line = append(line, '\n')
	if unended, err := lacksNewline(f); err != nil {
		return false, err
	} else if unended {
		line = append([]byte{'\n'}, line...)
	}
	_, err = f.Write(line)
	return err == nil, err
}

// lock waits until no other process has locked a file, and locks it until the file is closed.
func lock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lacksNewline reports whether the last line of a file does not end with a newline.
func lacksNewline(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}
