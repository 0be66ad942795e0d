package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/result"
)

// sample is the files of a trial, which the floor writes again and again.
type sample struct {
	directories []string // below the trial's, parents first
	files       map[string][]byte
	result      []byte
	events      int    // lines of events.jsonl
	line        []byte // a line of mean length
}

// readSample reads the files of a trial from the job in dir, which has that many trials.
func readSample(dir string, trials int) (sample, error) {
	s := sample{files: map[string][]byte{}}
	found, err := filepath.Glob(filepath.Join(dir, "*", "*", "*__1"))
	if err != nil || len(found) == 0 {
		return s, errors.Join(err, fmt.Errorf("no trial in %s", dir))
	}
	trial := os.DirFS(found[0])
	err = fs.WalkDir(trial, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case entry.IsDir():
			s.directories = append(s.directories, path)
		default:
			s.files[path], err = fs.ReadFile(trial, path)
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.result = s.files[result.ResultFile]
	delete(s.files, result.ResultFile)
	lines, size, err := countLines(filepath.Join(dir, result.EventsFile))
	if err != nil || lines == 0 {
		return s, errors.Join(err, fmt.Errorf("%d events in %s", lines, dir))
	}
	s.events, s.line = lines/trials, bytes.Repeat([]byte("."), size/lines)
	return s, nil
}

// countLines returns the number of lines and of bytes in a file, which may be large.
func countLines(path string) (lines, size int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := file.Read(buffer)
		lines, size = lines+bytes.Count(buffer[:n], []byte("\n")), size+n
		if errors.Is(err, io.EOF) {
			return lines, size, nil
		}
		if err != nil {
			return lines, size, err
		}
	}
}

// writeFiles writes a sample trials times below dir, the way jobs are written but with no other work: results atomically, the rest
// directly.
func writeFiles(ctx context.Context, s sample, dir string, trials, workers int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	events, err := os.OpenFile(filepath.Join(dir, result.EventsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer events.Close()
	var mu sync.Mutex // lines come one at a time
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for n := range trials {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			for range s.events {
				mu.Lock()
				_, err := events.Write(s.line)
				mu.Unlock()
				if err != nil {
					return err
				}
			}
			return s.write(filepath.Join(dir, fmt.Sprintf("%03d", n%engineTasks), fmt.Sprint(n)))
		})
	}
	return group.Wait()
}

func (s sample) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, directory := range s.directories[1:] {
		if err := os.Mkdir(filepath.Join(dir, directory), 0o755); err != nil {
			return err
		}
	}
	for path, content := range s.files {
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o644); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(dir, ".tmp-")
	if err != nil {
		return err
	}
	_, err = file.Write(s.result)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, result.ResultFile))
}
