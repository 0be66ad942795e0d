package result

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// readJob reads a job's result.json that the user named, which may be a link or a pipe. It does not
// hold the text of a regular one.
func readJob(path string) (job Job, err error) {
	f, err := os.Open(path)
	if err != nil {
		return job, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() <= MaxJobFile {
		if job, ok := streamJob(f, path, info.Size()); ok {
			return job, nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return Job{}, err
		}
	}
	data, err := readAtMost(f, path, MaxJobFile)
	if err != nil {
		return job, err
	}
	return ParseJob(path, data)
}

// readAtMost reads all of a file. path names it in errors. A regular file is read into one piece of
// memory of its size.
func readAtMost(f io.Reader, path string, limit int64) ([]byte, error) {
	var data bytes.Buffer
	if file, ok := f.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			data.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
		}
	}
	_, err := data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(data.Len()) > limit {
		err = fmt.Errorf("%s: has more than %d bytes, which no result has", path, limit)
	}
	return data.Bytes(), err
}

// streamJob reads a job from a file of size bytes as ParseJob would, result by result. If it
// returns false, ParseJob decides about the file.
func streamJob(f io.Reader, path string, size int64) (job Job, ok bool) {
	in := &counter{in: io.LimitReader(f, size+1)}
	list := outcomeList{size: size, in: in, names: texts{}}
	rest, err := bounded.ReadObject(in, "results", list.add)
	if err != nil || bounded.Unmarshal(rest, &job) != nil {
		return Job{}, false
	}
	if list.all.Len() > 0 {
		list.all.index = nil
		job.Results = list.all
	}
	if job.restore(path) != nil {
		return Job{}, false
	}
	return job, true
}

// counter counts the bytes that were read.
type counter struct {
	in io.Reader
	n  int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

// outcomeList collects the results of a file of size bytes.
type outcomeList struct {
	size int64
	in   *counter
	all  Outcomes
	// names are shared, because agents have the names and digests of tasks in common.
	names texts
}

func (l *outcomeList) add(decode func(into any) error) error {
	if n := len(l.all.rows); n == cap(l.all.rows) {
		l.all.rows = slices.Grow(l.all.rows, l.more())
	}
	var o Outcome
	if err := decode(&o); err != nil {
		return err
	}
	l.names.share(&o.Agent, &o.Dataset, &o.Task, &o.TaskDigest)
	l.all.Append(o)
	return nil
}

// more returns for how many more results there should be room: for as many as the rest of the file
// has if they are as long as those before, so that the list does not grow again and again. A file
// with short ones gets no more than bounded.Unmarshal would let it have.
func (l *outcomeList) more() int {
	const first = 1000
	n := int64(l.all.Len())
	if n < first || l.in.n <= 0 {
		return first
	}
	rest := max(0, l.size-l.in.n)
	likely := n*rest/l.in.n + n/100
	if n < 10*first { // what was read ahead is a large part
		likely = min(likely, 9*n)
	}
	most := 8 * rest / int64(reflect.TypeFor[Outcome]().Size())
	return int(max(first, min(likely, most)))
}
