package environmenttest

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
)

// execChecks check a single command: its script, environment, streams and exit code.
func execChecks() []check {
	list := []check{
		{"output is handed on while the command runs", checkStreaming},
		{"the two output streams keep their order and do not mix", checkStreams},
		{"a script of 200 kB runs", checkLongScript},
		{"variables reach the command unchanged, the nearest wins", checkEnv},
		{"values of variables are in no process's arguments", checkEnvNotInArgv},
		{"a command runs where and as whom it is told", checkWorkDirAndUser},
		{"an unknown user cannot start a command", checkUnknownUser},
		{"a missing working directory is an error", checkUnknownWorkDir},
		{"input arrives unchanged and ends", checkStdin},
		{"no input is empty input", checkNoStdin},
		{"input that nobody reads does not hold up the command", checkUnreadStdin},
		{"what a command writes last arrives whole", checkLastOutput},
		{memoryCheck, checkMuchOutput},
		{"a writer that fails does not stop the command, and its error is returned", checkFailingWriter},
		{"a context that has ended starts nothing", checkEndedContext},
		{"the time that a command reports is the time that it ran", checkRan},
	}
	for _, c := range exitCodes {
		list = append(list, check{"exit code of " + c.name, func(s *scene) {
			o := s.create().exec(s.ctx, c.script, environment.ExecOptions{})
			if o.err != nil || o.code != c.code {
				s.Errorf("exit code %d, error %v; want %d and no error (stderr %q)", o.code, o.err, c.code, o.stderr)
			}
		}})
	}
	for _, c := range scripts {
		list = append(list, check{"script with " + c.name, func(s *scene) {
			s.equal("output", s.create().run(c.script), c.want)
		}})
	}
	return list
}

// checkRan compares Ran with the time that has passed here, which is never less.
func checkRan(s *scene) {
	env := s.create()
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
		o := env.exec(s.ctx, c.script, environment.ExecOptions{Timeout: c.timeout, Ran: &ran})
		elapsed := time.Since(began)
		if !errors.Is(o.err, c.err) || c.err == nil && o.code != c.code {
			s.Fatalf("%s: exit code %d, error %v", c.name, o.code, o.err)
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
func checkStreaming(s *scene) {
	env := s.create()
	stdin, answer := io.Pipe()
	stdout := newSignal("question\n")
	go func() {
		<-stdout.seen
		fmt.Fprintln(answer, "answer")
		answer.Close()
	}()
	o := env.exec(s.ctx, `echo question; IFS= read -r line; echo "got $line"`,
		environment.ExecOptions{Stdin: stdin, Stdout: stdout})
	if o.err != nil || o.code != 0 {
		s.Fatalf("exit code %d, error %v", o.code, o.err)
	}
	s.equal("output", stdout.String(), "question\ngot answer\n")
}

func checkStreams(s *scene) {
	o := s.create().exec(s.ctx, "for i in $(seq 1 2000); do echo out $i; echo err $i >&2; done", environment.ExecOptions{})
	var stdout, stderr strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&stdout, "out %d\n", i+1)
		fmt.Fprintf(&stderr, "err %d\n", i+1)
	}
	s.equal("stdout", o.stdout, stdout.String())
	s.equal("stderr", o.stderr, stderr.String())
}

// On Linux, a single argument has at most 128 KiB.
func checkLongScript(s *scene) {
	var script strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&script, "v=%d # %s\n", i, "padding.")
	}
	script.WriteString("echo $v\n")
	s.equal("output", s.create().run(script.String()), "9999\n")
}

func checkEnv(s *scene) {
	env := s.create(func(o *environment.CreateOptions) {
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
		got := env.runWith(`[ -n "${`+name+`+set}" ] && printf '<%s>' "$`+name+`"`, environment.ExecOptions{Env: values})
		s.equal("$"+name, got, "<"+want+">")
	}
	s.equal("$FROM_CREATE", env.run(`printf %s "$FROM_CREATE"`), "created")
	s.equal("$BOTH without exec's", env.run(`printf %s "$BOTH"`), "created")
	s.equal("$SPACES in the next command", env.run(`printf %s "$SPACES"`), "")
	s.equal("exported to children", env.runWith(`bash -c 'printf %s "$BOTH"'`, environment.ExecOptions{Env: values}), values["BOTH"])
}

func checkEnvNotInArgv(s *scene) {
	env := s.create(func(o *environment.CreateOptions) { o.Env = map[string]string{"SECRET_A": "value-" + s.labels.Job} })
	got := env.runWith(`sleep 3600 & all=$(cat /proc/[0-9]*/cmdline | tr '\0' ' ')
		case $all in *sleep*) echo looked;; esac
		case $all in *"$SECRET_A"*) echo "A is in: $all";; esac
		case $all in *"$SECRET_B"*) echo "B is in: $all";; esac`,
		environment.ExecOptions{Env: map[string]string{"SECRET_B": "other-" + s.labels.Job}})
	s.equal("process lists", got, "looked\n")
}

func checkWorkDirAndUser(s *scene) {
	env := s.create()
	env.run("mkdir -p '/srv/a b'; chmod 777 '/srv/a b'")
	for _, c := range []struct {
		opts environment.ExecOptions
		want string
	}{
		{environment.ExecOptions{WorkDir: "/srv/a b"}, "/srv/a b 0 0\n"},
		{environment.ExecOptions{WorkDir: "/srv/a b", User: "nobody"}, "/srv/a b 65534 65534\n"},
		{environment.ExecOptions{WorkDir: "/", User: "1234:567"}, "/ 1234 567\n"},
		{environment.ExecOptions{WorkDir: "/", User: "root"}, "/ 0 0\n"},
	} {
		got := env.runWith(`echo "$PWD $(id -u) $(id -g)"`, c.opts)
		s.equal(fmt.Sprintf("user %q", c.opts.User), got, c.want)
	}
	o := env.exec(s.ctx, "touch '/srv/a b/mine' && touch /etc/not-mine", environment.ExecOptions{User: "nobody"})
	if o.err != nil || o.code != 1 {
		s.Errorf("nobody writes to /etc: exit code %d, error %v, want 1", o.code, o.err)
	}
	s.equal("owner", env.run("stat -c %u '/srv/a b/mine'"), "65534\n")
}

func checkUnknownUser(s *scene) {
	env := s.create()
	o := env.exec(s.ctx, "echo ran", environment.ExecOptions{User: "no-such-user"})
	s.wantKind("unknown user", o.err, environment.KindExec)
	s.equal("output", o.stdout, "")
	s.equal("the next command", env.run("echo fine"), "fine\n")
}

func checkUnknownWorkDir(s *scene) {
	env := s.create()
	o := env.exec(s.ctx, "echo ran", environment.ExecOptions{WorkDir: "/no/such/folder"})
	s.wantKind("unknown directory", o.err, environment.KindExec)
	s.equal("output", o.stdout, "")
	s.equal("the next command", env.run("echo fine"), "fine\n")
}

func checkStdin(s *scene) {
	env := s.create()
	var in bytes.Buffer
	for i := range 1 << 20 {
		in.WriteByte(byte(i ^ i>>8))
	}
	s.equal("1 MiB of all bytes through cat",
		env.runWith("cat", environment.ExecOptions{Stdin: bytes.NewReader(in.Bytes())}), in.String())
	s.equal("lines", env.runWith(`n=0; while IFS= read -r l; do n=$((n+1)); last=$l; done; echo $n $last`,
		environment.ExecOptions{Stdin: strings.NewReader("a\nb\nc\n")}), "3 c\n")
}

func checkNoStdin(s *scene) {
	s.equal("output", s.create().run("cat; read -r x; echo end"), "end\n")
}

// checkUnreadStdin gives an input that never ends and never has data.
func checkUnreadStdin(s *scene) {
	stdin, w := io.Pipe()
	defer w.Close()
	s.equal("output", s.create().runWith("echo end", environment.ExecOptions{Stdin: stdin}), "end\n")
}

func checkLastOutput(s *scene) {
	var n counter
	s.create().runWith("head -c 10485760 /dev/zero; printf x", environment.ExecOptions{Stdout: &n})
	if n.bytes != 10485761 {
		s.Errorf("%d bytes arrived, want 10485761", n.bytes)
	}
}

func checkMuchOutput(s *scene) {
	size := int64(1 << 28)
	if s.opts.brief() {
		size = 1 << 26
	}
	env := s.create()
	n := counter{sample: true}
	runtime.GC()
	before := heap()
	env.runWith("head -c "+strconv.FormatInt(size, 10)+" /dev/zero", environment.ExecOptions{Stdout: &n})
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

func checkFailingWriter(s *scene) {
	env := s.create()
	o := env.exec(s.ctx, "head -c 1000000 /dev/zero; echo to the end > /tmp/end; echo seen >&2",
		environment.ExecOptions{Stdout: &fullDisk{room: 10}})
	if !errors.Is(o.err, errFull) {
		s.Errorf("error %v, want the writer's", o.err)
	}
	s.equal("the other stream", o.stderr, "seen\n")
	s.equal("the command's last act", env.run("cat /tmp/end"), "to the end\n")
}

func checkEndedContext(s *scene) {
	env := s.create()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	o := env.exec(ctx, "touch /tmp/ran", environment.ExecOptions{})
	if !errors.Is(o.err, context.Canceled) {
		s.Errorf("error %v, want %v", o.err, context.Canceled)
	}
	s.equal("after", env.run("test -e /tmp/ran && echo it ran || echo it did not run"), "it did not run\n")
}
