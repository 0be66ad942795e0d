package fake_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/fake"
)

func newEnvironment(t *testing.T, change ...func(*environment.CreateOptions)) environment.Environment {
	t.Helper()
	p := fake.New(fake.Options{World: fake.NewWorld()})
	opts := environment.CreateOptions{Image: "debian:bookworm"}
	for _, c := range change {
		c(&opts)
	}
	env, err := p.CreateEnvironment(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// run returns what a script prints to either output, and its exit code.
func run(t *testing.T, env environment.Environment, script string, opts environment.ExecOptions) (string, int) {
	t.Helper()
	var out strings.Builder
	opts.Stdout, opts.Stderr = &out, &out
	code, err := env.Exec(t.Context(), script, opts)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return out.String(), code
}

// TestShell is about what the interpreter does not do by itself: jobs, signals, builtins that would look
// at the host, and programs.
func TestShell(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		code               int
	}{
		{"a job's exit code is waited for", "(exit 7) & wait $!", "", 7},
		{"a job is killed by its id", "sleep 300 & kill $!; wait $!; echo $?", "143\n", 0},
		{"a job that is a group is killed by its id", "(while :; do sleep 0.01; done) & kill -9 $!; wait $!; echo $?", "137\n", 0},
		{"a killed job is gone", "sleep 300 & p=$!; kill -0 $p && echo there; kill $p; wait $p; kill -0 $p 2>/dev/null || echo gone", "there\ngone\n", 0},
		{"errexit ends a job", "set -e; (false; echo not reached) & wait $! || echo code $?", "code 1\n", 0},
		{"a job has its own id", `echo $BASHPID > a & wait; [ "$(cat a)" = $! ] && [ $! != $$ ] && echo same`, "same\n", 0},
		{"a child shell has its own id", `bash -c '[ $$ != '$$' ] && [ $PPID = '$$' ] && echo child'`, "child\n", 0},

		{"jobs in a sourced script", "echo 'sleep 300 & kill $!; wait $!; echo $?' > s; . ./s", "143\n", 0},
		{"jobs in eval", "eval 'sleep 300 & kill $!'; wait $!; echo $?", "143\n", 0},
		{"a sourced script that is not there", ". ./none; echo $?", "source: use /./none: no such file or directory\n1\n", 0},
		{"jobs in a function", "f() { sleep 300 & kill $!; wait $!; echo $?; }; f", "143\n", 0},
		{"a shell that is killed runs no further", "bash -c 'kill -9 $$; echo not reached'; echo $?", "137\n", 0},
		{"a deaf process survives", `bash -c 'trap "" TERM; kill $$; echo alive'`, "alive\n", 0},
		{"a deaf process does not survive everything", `bash -c 'trap "" TERM; kill -KILL $$; echo alive'`, "", 137},
		{"an exit trap runs", "trap 'echo bye' EXIT; echo hi; exit 3", "hi\nbye\n", 3},
		{"a script's name and arguments", `printf 'echo $0 $# "$2"' > s.sh; bash s.sh a 'b c'; bash -c 'echo $0 $1' zero one`, "s.sh 2 b c\nzero one\n", 0},
		{"options of bash", "bash -euo pipefail -c 'false | true; echo not reached'; echo $?; bash -xc ':'", "1\n+ :\n", 0},
		{"a script from the input", "echo 'echo from stdin' | bash; bash -s <<< 'echo here'", "from stdin\nhere\n", 0},
		{"a program that takes the place of another", `printf '#!/usr/bin/env bash\necho planted\n' > /usr/bin/cat; chmod 755 /usr/bin/cat; cat /etc/passwd; /bin/cat /etc/hosts`, "planted\n127.0.0.1 localhost\n", 0},
		{"an unknown command", "no-such; echo $?", "bash: no-such: command not found\n127\n", 0},
		{"an unknown program", "./no-such; echo $?", "bash: ./no-such: No such file or directory\n127\n", 0},
		{"a file that is not executable", "touch f; ./f; echo $?", "bash: ./f: Permission denied\n126\n", 0},
		{"process substitution is refused", "cat <(echo x)", "bash: the fake environment knows neither process substitutions nor coprocesses\n", 2},
		{"a syntax error", "echo 'open", "bash: bash:1:6: reached EOF without closing quote `'`\n", 2},
		{"variables of one command", "X=1 bash -c 'echo $X'; env -i Y=2 bash -c 'echo $X$Y'", "1\n2\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, code := run(t, newEnvironment(t), tt.script, environment.ExecOptions{})
			if got != tt.want || code != tt.code {
				t.Errorf("got %q, exit code %d\nwant %q, exit code %d", got, code, tt.want, tt.code)
			}
		})
	}
}

// TestCommands is about the commands that scripts of tests use most.
func TestCommands(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		code               int
	}{
		{"wc, tr, cut and sort", "printf 'b c\na b\n' > f; wc -l < f; wc -c f; tr ab xy < f; cut -c 1-2 f; sort f; head -c 3 f", "2\n8 f\ny c\nx y\nb \na \na b\nb c\nb c", 0},
		{"grep", "printf 'one\ntwo\n' > f; grep tw f; grep -c o f; grep -q three f; echo $?; grep x none; echo $?", "two\n2\n1\ngrep: none: No such file or directory\n2\n", 0},
		{"cp and mv", "mkdir -p d/e; echo 1 > d/e/f; chmod 700 d/e/f; cp d/e/f g; mv d c; stat -c '%a %n' c/e/f g; cp c x; mv none x", "700 c/e/f\n700 g\ncp: c: Is a directory\nmv: none: No such file or directory\n", 1},
		{"modes", "touch f; chmod 640 f; stat -c %a f; mkdir -m 1777 d; stat -c '%a %F' d; chmod rwx f", "640\n1777 directory\nchmod: f: Invalid mode \"rwx\"\n", 1},
		{"owners", "touch f; chown 12 f; stat -c %u f; chown root f; echo $?", "12\nchown: strconv.Atoi: parsing \"root\": invalid syntax (the fake environment knows few options)\n2\n", 0},
		{"seq", "seq 2; seq 3 4; seq x", "1\n2\n3\n4\nseq: strconv.Atoi: parsing \"x\": invalid syntax (the fake environment knows few options)\n", 2},
		{"a directory into itself", "mkdir -p a/b; mv a a/b", "mv: a: Invalid argument\n", 1},
		{"rm", "mkdir d; touch d/f; rm d; rm -r d; rm -f none; rm none", "rm: d: Is a directory\nrm: none: No such file or directory\n", 1},
		{"links", "echo x > a; ln -s a l; ln a h; cat l h; readlink l; rm a; cat h; cat l; ln -sf h l; cat l; mkdir -p d/e; ln -s d/e k; ls k/..; ln -s loop loop; cat loop", "x\nx\na\nx\ncat: l: No such file or directory\nx\ne\ncat: loop: Too many levels of symbolic links\n", 1},
		{"find", "mkdir -p d/e; touch d/a.txt d/e/b.txt d/.c; ln -s a.txt d/l; find d -name '*.txt'; find d -type l -o -type d; find d -type f -not -name '.*'; find d -newer x", "d/a.txt\nd/e/b.txt\nd\nd/e\nd/l\nd/a.txt\nd/e/b.txt\nfind: d: Unknown test -newer\n", 1},
		{"ls", "mkdir d; touch d/b d/a d/.h; ls d; ls -A d; ls /etc/hosts none; ls -d d", "a\nb\n.h\na\nb\n/etc/hosts\nls: none: No such file or directory\nd\n", 0},
		{"dates and sleeps", "a=$(date +%s%N); sleep 0.001; b=$(date +%s%N); [ $b -gt $a ] && echo later; sleep x", "later\nsleep: x: Invalid time interval\n", 1},
		{"devices", "head -c 4 /dev/zero | wc -c; cat /dev/null; echo gone > /dev/null; head -c 8 /dev/urandom | wc -c; echo err > /dev/stderr; cat < /dev/null", "4\n8\nerr\n", 0},
		{"sparse files", "truncate -s 1048576 f; wc -c < f; echo x >> f; wc -c < f; truncate -s 3 f; tr '\\0' 0 < f", "1048576\n1048578\n000", 0},
		{"xargs", "printf 'a b\nc' | xargs ls", "ls: a: No such file or directory\nls: b: No such file or directory\nls: c: No such file or directory\n", 1},
		{"a program in PATH", "mkdir -p /usr/local/bin; echo 'echo tool $1' > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool; tool x; command -v tool cat cd", "tool x\n/usr/local/bin/tool\n/usr/bin/cat\ncd\n", 0},
		{"an unknown option", "rm -x", "rm: unknown option -x (the fake environment knows few options)\n", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, code := run(t, newEnvironment(t), tt.script, environment.ExecOptions{})
			if got != tt.want || code != tt.code {
				t.Errorf("got %q, exit code %d\nwant %q, exit code %d", got, code, tt.want, tt.code)
			}
		})
	}
}

// TestPermissions: root may do everything, others what modes allow.
func TestPermissions(t *testing.T) {
	env := newEnvironment(t)
	run(t, env, "mkdir /open /closed; chmod 777 /open; chmod 700 /closed; echo s > /secret; chmod 600 /secret; touch /closed/f; echo r > /read", environment.ExecOptions{})
	got, _ := run(t, env, `cat /secret; cat /read; echo x > /read; echo mine > /open/f && cat /open/f; ls /closed; cat /closed/f; rm /read; mkdir /d
		mv /read /open; ln -s x /l; touch /read; chmod 777 /secret; cd /closed; test -r /secret || echo unreadable; kill -9 1 2>/dev/null || echo spared`,
		environment.ExecOptions{User: "nobody", WorkDir: "/"})
	if n := strings.Count(got, "ermission denied") + strings.Count(got, "not permitted"); n != 11 {
		t.Errorf("%d refusals, want 11:\n%s", n, got)
	}
	for _, want := range []string{"r\n", "mine\n", "unreadable\n", "spared\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
}
