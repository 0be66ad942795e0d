package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// victims start something that lives until it is killed, and then write to $d/began. Source of the
// list: internal/core/environment/environmenttest, kill.go.
var victims = []struct{ name, script string }{
	{"the command itself", "echo x >$d/began; exec sleep 301"},
	{"a background child", "sleep 301 & echo x >$d/began; wait"},
	{"a child that left the session", "setsid nohup bash -c 'echo x >$d/began; exec sleep 301' >/dev/null 2>&1 & sleep 301"},
	{"an orphan without session and environment",
		`(env -i d=$d setsid bash -c '(echo x >$d/began; exec sleep 301) &' >/dev/null 2>&1 &); sleep 301`},
	{"an orphan of a command that has ended", `(setsid bash -c 'echo x >$d/began; exec sleep 301' &)`},
	{"a child that ignores every polite signal",
		`bash -c 'trap "" TERM INT HUP QUIT; echo x >$d/began; while :; do sleep 301; done' & sleep 301`},
	{"a stopped process", "sleep 301 & kill -STOP $!; echo x >$d/began; kill -STOP $$"},
	{"a process that keeps starting others",
		`(i=0; while [ $i -lt 3000 ]; do i=$((i+1)); setsid sleep 301 & [ $i = 20 ] && echo x >$d/began; done) & sleep 301`},
	{"a chain of processes in which each starts the next and dies", "bash $d/chain.sh 20000 $d; sleep 301"},
	{"a tree in which each starts two others in sessions of their own", "bash $d/tree.sh 6 $d"},
	{"a process of which only a thread lives", roleVariable + "=" + headless + ` setsid /proc/1/exe $d & sleep 301`},
}

// scripts are files that the victims run.
var scripts = map[string]string{
	"chain.sh": `[ $1 = 19950 ] && echo x >$2/began
		if [ $1 -gt 0 ]; then env -i setsid bash $2/chain.sh $(($1-1)) $2 >/dev/null 2>&1 & fi`,
	"tree.sh": `[ $1 = 3 ] && echo x >$2/began
		if [ $1 -gt 0 ]; then for i in 1 2; do setsid bash $2/tree.sh $(($1-1)) $2 & done; fi
		sleep 301`,
}

// scenes are carried out by the first process of a pid namespace. Each is a test.
func scenes() map[string]func(*scene) {
	all := map[string]func(*scene){
		"an older server lives on, with what it starts and abandons meanwhile": killWithOlderServer,
		"a server that began in the same hundredth of a second lives on":       killWithTwin,
		"a command that began later lives on if it is named":                   killWithLaterCommand,
		"a command that began later is an orphan if it is not named":           killUnnamed,
		"what process 1 starts in its session lives on":                        killWithHelper,
		"a process that has got the id of another is not signalled":            signalStranger,
		"a context that has ended ends the wait, not the attempt":              killCancelled,
		"a command that has ended and left nothing is no problem":              killNothing,
		"nobody is left to notice that another was killed":                     killUnnoticed,
		foreignProc: killWithForeignProc,
	}
	for _, v := range victims {
		all[v.name] = func(s *scene) {
			for name, text := range scripts {
				s.must(os.WriteFile(s.dir+"/"+name, []byte(text), 0o666))
			}
			root := s.start(v.script)
			s.until("began")
			s.kill(root)
			s.wantAlive()
		}
	}
	return all
}

func TestKill(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenes())) {
		t.Run(name, func(t *testing.T) { inNamespace(t, name) })
	}
}

// killWithOlderServer has an older process start others from before the command is killed until
// after it.
func killWithOlderServer(s *scene) {
	const serve = `exec 3<>$d/order; while read -r line <&3; do eval "$line"; done`
	s.must(unix.Mkfifo(s.dir+"/order", 0o666))
	s.start(serve)
	s.untilAlive("bash -c " + serve)
	root := s.start("setsid sleep 301 & echo x >$d/began; sleep 301")
	s.until("began")
	const each = 100
	order := fmt.Sprintf("i=0; while [ $((i++)) -lt %d ]; do sleep 302 & (sleep 303 &); [ $i = 10 ] && echo x >$d/half; done; echo x >$d/done\n", each)
	s.must(os.WriteFile(s.dir+"/order", []byte(order), 0))
	s.until("half")
	s.kill(root)
	s.until("done")
	// Forked shells become what they are to run in their own time; a dead one never does.
	s.untilAlive(slices.Concat([]string{"bash -c " + serve},
		slices.Repeat([]string{"sleep 302"}, each), slices.Repeat([]string{"sleep 303"}, each))...)
}

func killWithTwin(s *scene) {
	for range 1000 {
		twin := s.start("exec sleep 302")
		root := s.start("exec sleep 301")
		same := twin.Start == root.Start
		s.untilAlive("sleep 301", "sleep 302")
		s.kill(root)
		s.wantAlive("sleep 302")
		s.kill(twin)
		s.wantAlive()
		if same {
			return
		}
	}
	s.fail("no two commands began in the same hundredth of a second")
}

func killWithLaterCommand(s *scene) {
	root := s.startAlone()
	other := s.start("sleep 302 & setsid sleep 303 & exec sleep 304")
	s.untilAlive("sleep 301", "sleep 302", "sleep 303", "sleep 304")
	s.kill(root, other)
	s.wantAlive("sleep 302", "sleep 303", "sleep 304")
}

func killUnnamed(s *scene) {
	root := s.startAlone()
	s.start("exec sleep 302")
	s.untilAlive("sleep 301", "sleep 302")
	s.kill(root)
	s.wantAlive()
}

func killWithHelper(s *scene) {
	root := s.startAlone()
	s.startIn("exec sleep 302", false)
	s.untilAlive("sleep 301", "sleep 302")
	s.kill(root)
	s.wantAlive("sleep 302")
}

// startAlone starts a command, and returns when what starts then begins in a later tick.
func (s *scene) startAlone() Process {
	root := s.start("exec sleep 301")
	for now := root.Start; now == root.Start; {
		now = s.start("exit 0").Start
	}
	s.untilAlive("sleep 301")
	return root
}

func signalStranger(s *scene) {
	p := s.start("exec sleep 301")
	s.untilAlive("sleep 301")
	list, err := openProc()
	s.must(err)
	s.must(list.signal(Process{PID: p.PID, Start: p.Start - 1}, unix.SIGKILL))
	s.must(list.signal(Process{PID: p.PID, Start: p.Start + 1}, unix.SIGKILL))
	s.must(list.signal(Process{PID: 1 << 22, Start: p.Start}, unix.SIGKILL))
	// Had it been killed, it would never stop.
	s.must(list.signal(p, unix.SIGSTOP))
	for state := byte(0); state != 'T'; {
		got, err := list.stat(fmt.Sprint(p.PID))
		s.must(err)
		state = got.state
	}
	s.must(list.signal(p, unix.SIGKILL))
	s.untilAlive()
}

func killCancelled(s *scene) {
	root := s.start("exec sleep 301")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Kill(ctx, root); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), fmt.Sprintf("(%d)", root.PID)) {
		s.fail("error %v, want %v with the id %d", err, context.Canceled, root.PID)
	}
	s.untilAlive()
	if err := Kill(ctx, root); err != nil {
		s.fail("all are dead, yet: %v", err)
	}
}

// killUnnoticed has processes that are told when the command dies. Between it and them are so many
// others that one had the time to answer, were they killed without having been stopped.
func killUnnoticed(s *scene) {
	root := s.start(`for i in {1..300}; do sleep 301 & done
		for i in {1..20}; do
			setpriv --pdeathsig TERM bash -c 'trap "echo x >$d/noticed" TERM; echo x >>$d/ready; while :; do sleep 301 & wait; done' &
		done
		until [ "$(wc -l 2>/dev/null <$d/ready)" = 20 ]; do sleep 0.01; done
		echo x >$d/began; wait`)
	s.until("began")
	s.kill(root)
	s.wantAlive()
	if _, err := os.Stat(s.dir + "/noticed"); err == nil {
		s.fail("a process was still there to answer")
	}
}

func killNothing(s *scene) {
	root := s.start("exit 0")
	s.untilAlive()
	s.kill(root)
}

func killWithForeignProc(s *scene) {
	err := Kill(context.Background(), Process{PID: 2, Start: 1})
	if err == nil || !strings.Contains(err.Error(), "another pid namespace") {
		s.fail("error %v", err)
	}
}

func TestOnlyTheFirstProcessMayKill(t *testing.T) {
	err := Kill(t.Context(), Process{PID: os.Getpid(), Start: 1 << 62})
	if err == nil || !strings.Contains(err.Error(), "is not the first of its pid namespace") {
		t.Errorf("error %v", err)
	}
}

func TestStartedOfAMissingProcessIsAnError(t *testing.T) {
	if _, err := Started(1 << 22); !errors.Is(err, unix.ENOENT) {
		t.Errorf("error %v, want %v", err, unix.ENOENT)
	}
}

// BenchmarkScan looks at this machine's processes.
func BenchmarkScan(b *testing.B) {
	list, err := openProc()
	if err != nil {
		b.Fatal(err)
	}
	defer list.close()
	found := 0
	for b.Loop() {
		all, err := list.scan()
		if err != nil {
			b.Fatal(err)
		}
		classify(all, Process{PID: 1 << 22, Start: 1 << 62}, nil)
		found = len(all)
	}
	b.ReportMetric(float64(found), "processes")
}

// TestScanAsksForOneProcess: a process may end, having started another, before its data is read.
func TestScanAsksForOneProcess(t *testing.T) {
	list, err := openProc()
	if err != nil {
		t.Fatal(err)
	}
	defer list.close()
	found, err := list.scan()
	if err != nil || !slices.ContainsFunc(found, func(s stat) bool { return s.PID == os.Getpid() }) {
		t.Fatalf("%d processes without this one, %v", len(found), err)
	}
	_, err = unix.Seek(list.dir, 0, io.SeekStart)
	for n := 1; n > 0 && err == nil; {
		if n, err = unix.Getdents(list.dir, list.entry[:]); errors.Is(err, unix.EINVAL) {
			n, err = unix.Getdents(list.dir, list.other[:])
			continue
		}
		if _, _, names := unix.ParseDirent(list.entry[:n], -1, nil); len(names) > 1 {
			t.Fatalf("asks for %q at once", names)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
