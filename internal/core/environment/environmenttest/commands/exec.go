package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// MemoryCheck measures the memory of the whole process, so it runs alone.
const MemoryCheck = "256 MiB of output needs no memory"

// execChecks check a single command: its script, environment, streams and exit code.
func execChecks() []suite.Check {
	list := []suite.Check{
		{Name: "output is handed on while the command runs", Run: checkStreaming},
		{Name: "the two output streams keep their order and do not mix", Run: checkStreams},
		{Name: "a script of 200 kB runs", Run: checkLongScript},
		{Name: "variables reach the command unchanged, the nearest wins", Run: checkEnv},
		{Name: "values of variables are in no process's arguments", Run: checkEnvNotInArgv},
		{Name: "a command runs where and as whom it is told", Run: checkWorkDirAndUser},
		{Name: "an unknown user cannot start a command", Run: checkUnknownUser},
		{Name: "a missing working directory is an error", Run: checkUnknownWorkDir},
		{Name: "input arrives unchanged and ends", Run: checkStdin},
		{Name: "no input is empty input", Run: checkNoStdin},
		{Name: "input that is not read does not block the command", Run: checkUnreadStdin},
		{Name: "what a command writes last arrives whole", Run: checkLastOutput},
		{Name: MemoryCheck, Run: checkMuchOutput},
		{Name: "a writer that fails does not stop the command, and its error is returned", Run: checkFailingWriter},
		{Name: "a context that has ended starts nothing", Run: checkEndedContext},
		{Name: "the time that a command reports is the time that it ran", Run: checkRan},
	}
	for _, c := range exitCodes {
		list = append(list, suite.Check{Name: "exit code of " + c.name, Run: func(s *suite.Scene) {
			o := s.Create().Do(s.Ctx, c.script, environment.ExecOptions{})
			if o.Err != nil || o.Code != c.code {
				s.Errorf("exit code %d, error %v; want %d and no error (stderr %q)", o.Code, o.Err, c.code, o.Stderr)
			}
		}})
	}
	for _, c := range scripts {
		list = append(list, suite.Check{Name: "script with " + c.name, Run: func(s *suite.Scene) {
			s.Equal("output", s.Create().Run(c.script), c.want)
		}})
	}
	return list
}

// checkRan compares Ran with the time that has passed here, which is never less.
func checkRan(s *suite.Scene) {
	env := s.Create()
	for _, c := range []struct {
		name, script string
		timeout      time.Duration
		code         int
		err          error
	}{
		{"a command that succeeds", "sleep 1", time.Minute, 0, nil},
		{"a command that fails", "sleep 1; exit 3", time.Minute, 3, nil},
		{"a command that is too late", "sleep 3600", time.Second, 0, environment.ErrTimeout},
	} {
		const unset = -1
		ran, began := time.Duration(unset), time.Now()
		o := env.Do(s.Ctx, c.script, environment.ExecOptions{Timeout: c.timeout, Ran: &ran})
		elapsed := time.Since(began)
		if !errors.Is(o.Err, c.err) || c.err == nil && o.Code != c.code {
			s.Fatalf("%s: exit code %d, error %v", c.name, o.Code, o.Err)
		}
		if ran == unset {
			continue // the provider does not measure it
		}
		// A machine that stands still for seconds is not the command's fault, so that time need not
		// count.
		if ran > elapsed || ran < time.Second/2 && elapsed < 5*time.Second {
			s.Errorf("%s: it reports %s of the %s that have passed here, want 1s or a little more", c.name, ran, elapsed)
		}
	}
}

var exitCodes = []struct {
	name, script string
	code         int
}{
	{"a command that succeeds", "exit 0", 0},
	{"a command that fails", "exit 3", 3},
	{"a command that fails with the highest code", "exit 255", 255},
	{"a failing last command", "true; false", 1},
	{"an unknown command", "no-such-command-here", 127},
	{"a script with a syntax error", "if then", 2},
	{"an empty script", "", 0},
	{"a script that begins with a dash", "-no-such-command-here", 127},
	{"a command that is killed is 128 + 9", "kill -9 $$", 137},
	{"a command that is terminated is 128 + 15", "kill -TERM $$; sleep 3600", 143},
}

var scripts = []struct{ name, script, want string }{
	{"quotes", `printf '%s|' "a'b" 'c"d' "e\"f" $'g\'h'`, `a'b|c"d|e"f|g'h|`},
	{"newlines and a here-document", "x=1\nif [ $x = 1 ]\nthen\n  cat <<'END'\n$x \\ `y`\nEND\nfi\n", "$x \\ `y`\n"},
	{"text beyond ASCII", "echo 'käse 漢字 🚀'", "käse 漢字 🚀\n"},
	{"what is bash alone", `a=(one "two three"); [[ ${a[1]} == two* ]] && echo "${#a[@]} ${a[1]^^}"`, "2 TWO THREE\n"},
	{"blank lines around it", "\n\n  echo in the middle  \n\n", "in the middle\n"},
}

// checkStreaming runs a command that waits for an answer to its first line, so it can only end if
// that line is passed on while it runs.
func checkStreaming(s *suite.Scene) {
	env := s.Create()
	stdin, answer := io.Pipe()
	stdout := suite.NewSignal("question\n")
	go func() {
		<-stdout.Seen
		fmt.Fprintln(answer, "answer")
		answer.Close()
	}()
	o := env.Do(s.Ctx, `echo question; IFS= read -r line; echo "got $line"`,
		environment.ExecOptions{Stdin: stdin, Stdout: stdout})
	if o.Err != nil || o.Code != 0 {
		s.Fatalf("exit code %d, error %v", o.Code, o.Err)
	}
	s.Equal("output", stdout.String(), "question\ngot answer\n")
}

func checkStreams(s *suite.Scene) {
	o := s.Create().Do(s.Ctx, "for i in $(seq 1 2000); do echo out $i; echo err $i >&2; done", environment.ExecOptions{})
	var stdout, stderr strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&stdout, "out %d\n", i+1)
		fmt.Fprintf(&stderr, "err %d\n", i+1)
	}
	s.Equal("stdout", o.Stdout, stdout.String())
	s.Equal("stderr", o.Stderr, stderr.String())
}

// On Linux, a single argument has at most 128 KiB.
func checkLongScript(s *suite.Scene) {
	var script strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&script, "v=%d # %s\n", i, "padding.")
	}
	script.WriteString("echo $v\n")
	s.Equal("output", s.Create().Run(script.String()), "9999\n")
}

func checkEnv(s *suite.Scene) {
	env := s.Create(func(o *environment.CreateOptions) {
		o.Env = map[string]string{"FROM_CREATE": "created", "BOTH": "created"}
	})
	values := map[string]string{
		"BOTH":    "given to exec",
		"SPACES":  "  a  b ",
		"QUOTES":  `"'` + "`$HOME \\",
		"LINES":   "one\ntwo\n",
		"UNICODE": "käse 🚀",
		"EQUALS":  "a=b=c",
		"EMPTY":   "",
		"LONG":    strings.Repeat("long ", 10000),
	}
	for name, want := range values {
		got := env.RunWith(`[ -n "${`+name+`+set}" ] && printf '<%s>' "$`+name+`"`, environment.ExecOptions{Env: values})
		s.Equal("$"+name, got, "<"+want+">")
	}
	s.Equal("$FROM_CREATE", env.Run(`printf %s "$FROM_CREATE"`), "created")
	s.Equal("$BOTH without exec's", env.Run(`printf %s "$BOTH"`), "created")
	s.Equal("$SPACES in the next command", env.Run(`printf %s "$SPACES"`), "")
	s.Equal("exported to children", env.RunWith(`bash -c 'printf %s "$BOTH"'`, environment.ExecOptions{Env: values}), values["BOTH"])
}

func checkEnvNotInArgv(s *suite.Scene) {
	env := s.Create(func(o *environment.CreateOptions) { o.Env = map[string]string{"SECRET_A": "value-" + s.Labels.Job} })
	got := env.RunWith(`sleep 3600 & all=$(cat /proc/[0-9]*/cmdline | tr '\0' ' ')
		case $all in *sleep*) echo looked;; esac
		case $all in *"$SECRET_A"*) echo "A is in: $all";; esac
		case $all in *"$SECRET_B"*) echo "B is in: $all";; esac`,
		environment.ExecOptions{Env: map[string]string{"SECRET_B": "other-" + s.Labels.Job}})
	s.Equal("process lists", got, "looked\n")
}

func checkWorkDirAndUser(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p '/srv/a b'; chmod 777 '/srv/a b'")
	for _, c := range []struct {
		opts environment.ExecOptions
		want string
	}{
		{environment.ExecOptions{WorkDir: "/srv/a b"}, "/srv/a b 0 0\n"},
		{environment.ExecOptions{WorkDir: "/srv/a b", User: "nobody"}, "/srv/a b 65534 65534\n"},
		{environment.ExecOptions{WorkDir: "/", User: "1234:567"}, "/ 1234 567\n"},
		{environment.ExecOptions{WorkDir: "/", User: "root"}, "/ 0 0\n"},
	} {
		got := env.RunWith(`echo "$PWD $(id -u) $(id -g)"`, c.opts)
		s.Equal(fmt.Sprintf("user %q", c.opts.User), got, c.want)
	}
	o := env.Do(s.Ctx, "touch '/srv/a b/mine' && touch /etc/not-mine", environment.ExecOptions{User: "nobody"})
	if o.Err != nil || o.Code != 1 {
		s.Errorf("nobody writes to /etc: exit code %d, error %v, want 1", o.Code, o.Err)
	}
	s.Equal("owner", env.Run("stat -c %u '/srv/a b/mine'"), "65534\n")
}

func checkUnknownUser(s *suite.Scene) {
	env := s.Create()
	o := env.Do(s.Ctx, "echo ran", environment.ExecOptions{User: "no-such-user"})
	s.WantKind("unknown user", o.Err, environment.KindExec)
	s.Equal("output", o.Stdout, "")
	s.Equal("the next command", env.Run("echo fine"), "fine\n")
}

func checkUnknownWorkDir(s *suite.Scene) {
	env := s.Create()
	o := env.Do(s.Ctx, "echo ran", environment.ExecOptions{WorkDir: "/no/such/folder"})
	s.WantKind("unknown directory", o.Err, environment.KindExec)
	s.Equal("output", o.Stdout, "")
	s.Equal("the next command", env.Run("echo fine"), "fine\n")
}

func checkStdin(s *suite.Scene) {
	env := s.Create()
	var in bytes.Buffer
	for i := range 1 << 20 {
		in.WriteByte(byte(i ^ i>>8))
	}
	s.Equal("1 MiB of all bytes through cat",
		env.RunWith("cat", environment.ExecOptions{Stdin: bytes.NewReader(in.Bytes())}), in.String())
	s.Equal("lines", env.RunWith(`n=0; while IFS= read -r l; do n=$((n+1)); last=$l; done; echo $n $last`,
		environment.ExecOptions{Stdin: strings.NewReader("a\nb\nc\n")}), "3 c\n")
}

func checkNoStdin(s *suite.Scene) {
	s.Equal("output", s.Create().Run("cat; read -r x; echo end"), "end\n")
}

// checkUnreadStdin gives an input that never ends and never has data.
func checkUnreadStdin(s *suite.Scene) {
	stdin, w := io.Pipe()
	defer w.Close()
	s.Equal("output", s.Create().RunWith("echo end", environment.ExecOptions{Stdin: stdin}), "end\n")
}

func checkLastOutput(s *suite.Scene) {
	var n counter
	s.Create().RunWith("head -c 10485760 /dev/zero; printf x", environment.ExecOptions{Stdout: &n})
	if n.bytes != 10485761 {
		s.Errorf("%d bytes arrived, want 10485761", n.bytes)
	}
}

func checkMuchOutput(s *suite.Scene) {
	size := int64(1 << 28)
	if s.Opts.Brief() {
		size = 1 << 26
	}
	env := s.Create()
	n := counter{sample: true}
	runtime.GC()
	before := heap()
	env.RunWith("head -c "+strconv.FormatInt(size, 10)+" /dev/zero", environment.ExecOptions{Stdout: &n})
	if n.bytes != size {
		s.Errorf("%d bytes arrived, want %d", n.bytes, size)
	}
	if grown := int64(n.peak) - int64(before); grown > 48<<20 {
		s.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// counter counts the bytes written, and measures the heap every 16 MiB if sample is set.
type counter struct {
	sample bool
	bytes  int64
	peak   uint64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.sample && c.bytes>>24 != (c.bytes+int64(len(p)))>>24 {
		c.peak = max(c.peak, heap())
	}
	c.bytes += int64(len(p))
	return len(p), nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

var errFull = errors.New("the disk is full")

// fullDisk accepts a few bytes, then fails.
type fullDisk struct{ room int }

func (f *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func checkFailingWriter(s *suite.Scene) {
	env := s.Create()
	o := env.Do(s.Ctx, "head -c 1000000 /dev/zero; echo to the end > /tmp/end; echo seen >&2",
		environment.ExecOptions{Stdout: &fullDisk{room: 10}})
	if !errors.Is(o.Err, errFull) {
		s.Errorf("error %v, want the writer's", o.Err)
	}
	s.Equal("the other stream", o.Stderr, "seen\n")
	s.Equal("the command's last act", env.Run("cat /tmp/end"), "to the end\n")
}

func checkEndedContext(s *suite.Scene) {
	env := s.Create()
	ctx, cancel := context.WithCancel(s.Ctx)
	cancel()
	o := env.Do(ctx, "touch /tmp/ran", environment.ExecOptions{})
	if !errors.Is(o.Err, context.Canceled) {
		s.Errorf("error %v, want %v", o.Err, context.Canceled)
	}
	s.Equal("after", env.Run("test -e /tmp/ran && echo it ran || echo it did not run"), "it did not run\n")
}
