package processes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// outside is before the names of scenes in which commands are ended from outside of their
// namespace.
const outside = "from outside: "

// fromOutside returns scenes in which the first process only waits.
func fromOutside() map[string]func(*scene) {
	all := map[string]func(*scene){
		outside + "an older server lives on, and a later command that is named": func(s *scene) {
			server := s.start("exec sleep 302")
			root := s.start("(setsid sleep 301 &); echo x >$d/began; sleep 301")
			s.until("began")
			other := s.start("exec sleep 303")
			s.killFromOutside(root, other)
			s.untilAlive("sleep 302", "sleep 303") // each may still be the bash that starts it
			_ = server
		},
	}
	for _, v := range victims {
		if strings.Contains(v.name, "that has ended") {
			continue // it has no id outside any more
		}
		all[outside+v.name] = func(s *scene) {
			for name, text := range scripts {
				s.must(os.WriteFile(s.dir+"/"+name, []byte(text), 0o666))
			}
			root := s.start(v.script)
			s.until("began")
			s.killFromOutside(root)
			s.wantAlive()
		}
	}
	return all
}

// killFromOutside has the test kill a command.
func (s *scene) killFromOutside(root Process, others ...Process) {
	order := strconv.Itoa(root.PID)
	for _, other := range others {
		order += " " + strconv.Itoa(other.PID)
	}
	s.must(os.WriteFile(filepath.Join(s.dir, "order.new"), []byte(order), 0o666))
	s.must(os.Rename(filepath.Join(s.dir, "order.new"), filepath.Join(s.dir, "order")))
	if answer := s.until("killed"); answer != "ok" {
		s.fail("killed from outside: %s", answer)
	}
}

// obey waits for a scene's order, and carries it out in the namespace whose first process has the
// id first.
func obey(first int, dir string, strike bool) {
	say := func(err error) {
		answer := "ok"
		if err != nil {
			answer = err.Error()
		}
		_ = os.WriteFile(filepath.Join(dir, "killed.new"), []byte(answer), 0o600)
		_ = os.Rename(filepath.Join(dir, "killed.new"), filepath.Join(dir, "killed"))
	}
	var order []byte
	for len(order) == 0 {
		if unix.Kill(first, 0) != nil {
			return // it has no orders
		}
		time.Sleep(time.Millisecond)
		order, _ = os.ReadFile(filepath.Join(dir, "order"))
	}
	c, err := OpenContainer(first)
	if err != nil {
		say(err)
		return
	}
	defer c.Close()
	var all []Process
	for id := range strings.FieldsSeq(string(order)) {
		p, err := c.Find(known(first, id))
		if err != nil {
			say(err)
			return
		}
		all = append(all, p)
	}
	if strike {
		err = c.Strike(all[0], all[1:]...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	say(errors.Join(err, c.Kill(ctx, all[0], all[1:]...)))
}

// known returns the id here of the process that has the id inside in the namespace of first; 0 if
// there is none.
func known(first int, inside string) int {
	entries, _ := os.ReadDir("/proc")
	want, _ := os.Readlink("/proc/" + strconv.Itoa(first) + "/ns/pid")
	for _, e := range entries {
		status, _ := os.ReadFile("/proc/" + e.Name() + "/status")
		at, _ := os.Readlink("/proc/" + e.Name() + "/ns/pid")
		if at != want {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok && strings.HasSuffix(strings.TrimSpace(ids), "\t"+inside) {
				pid, _ := strconv.Atoi(e.Name())
				return pid
			}
		}
	}
	return 0
}

func TestContainer(t *testing.T) {
	for name := range fromOutside() {
		for _, strike := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", at once"}[strike], func(t *testing.T) {
				inNamespaceWith(t, name, func(first int, dir string) { obey(first, dir, strike) })
			})
		}
	}
}

func TestOpenContainerRefusesProcessesOutsideContainers(t *testing.T) {
	for _, pid := range []int{os.Getpid(), os.Getppid(), 1} {
		if c, err := OpenContainer(pid); err == nil {
			c.Close()
			t.Errorf("process %d passes for a container's first", pid)
		} else if pid == os.Getpid() && !errors.Is(err, ErrNoContainer) {
			t.Errorf("process %d: %v, want %v", pid, err, ErrNoContainer)
		}
	}
	if _, err := OpenContainer(1 << 22); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a process that is not there: %v", err)
	}
}
