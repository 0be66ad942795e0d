package processes

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process is one process for good: ids are used again, but not with the same start.
type Process struct {
	PID int
	// Start is when it began, in clock ticks (hundredths of a second) since the machine started:
	// field 22 of /proc/PID/stat.
	Start int64
}

// Started returns when a process of this pid namespace began, in the unit of Process.Start. A
// process that has ended but was not reaped still is one; otherwise the error is unix.ENOENT or
// unix.ESRCH.
func Started(pid int) (int64, error) {
	s, err := statOf(pid)
	return s.Start, err
}

// Parent returns the parent of a process of this pid namespace, or 0 if that is outside of the
// namespace. Its errors are as those of Started.
func Parent(pid int) (int, error) {
	s, err := statOf(pid)
	return s.parent, err
}

func statOf(pid int) (stat, error) {
	list, err := openProc()
	if err != nil {
		return stat{}, err
	}
	defer list.close()
	s, err := list.stat(strconv.Itoa(pid))
	if err != nil {
		return stat{}, fmt.Errorf("read about process %d: %w", pid, err)
	}
	return s, nil
}

// stat holds the fields in use of a process's /proc/PID/stat.
type stat struct {
	Process
	state   byte
	parent  int // 0: outside of the namespace
	session int // 0: its leader was outside of the namespace
	threads int
}

// dead reports whether nothing of the process runs. Its first thread may have ended while others
// have not.
func (s stat) dead() bool {
	return (s.state == 'Z' || s.state == 'X' || s.state == 'x') && s.threads < 2
}

var errStat = errors.New("no line of /proc/PID/stat")

// parseStat reads a line of /proc/PID/stat. Source: proc_pid_stat(5).
func parseStat(line []byte) (stat, error) {
	pid, _, ok := bytes.Cut(line, []byte(" ("))
	// The name between the brackets is the process's own choice, and may have brackets and spaces.
	end := bytes.LastIndexByte(line, ')')
	if !ok || end < 0 {
		return stat{}, errStat
	}
	const first = 3 // the number of the field after the name
	var fields [23][]byte
	n := first
	for field := range bytes.FieldsSeq(line[end+1:]) {
		if n == len(fields) {
			break
		}
		fields[n] = field
		n++
	}
	if n < len(fields) {
		return stat{}, errStat
	}
	s := stat{state: fields[3][0]}
	for _, number := range []struct {
		to    *int
		field []byte
	}{{&s.PID, pid}, {&s.parent, fields[4]}, {&s.session, fields[6]}, {&s.threads, fields[20]}} {
		v, err := strconv.Atoi(string(number.field))
		if err != nil {
			return stat{}, fmt.Errorf("%w: %w", errStat, err)
		}
		*number.to = v
	}
	start, err := strconv.ParseInt(string(fields[22]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("%w: %w", errStat, err)
	}
	s.Start = start
	return s, nil
}

// gone reports whether an error means that the process has ended.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
}
