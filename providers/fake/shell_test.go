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
		{"jobs in a sourced script", "echo 'sleep 300 & kill $!; wait $!; echo $? $1' > s; . ./s arg", "143 arg\n", 0},
		{"jobs in eval", "eval 'sleep 300 & kill $!'; wait $!; echo $?", "143\n", 0},
		{"jobs in a function", "f() { sleep 300 & kill $!; wait $!; echo $?; }; f", "143\n", 0},
		{"a shell that is killed runs no further", "bash -c 'kill -9 $$; echo not reached'; echo $?", "137\n", 0},
		{"a deaf process survives", `bash -c 'trap "" TERM; kill $$; echo alive'`, "alive\n", 0},
		{"a deaf process does not survive everything", `bash -c 'trap "" TERM; kill -KILL $$; echo alive'`, "", 137},
		{"an exit trap runs", "trap 'echo bye' EXIT; echo hi; exit 3", "hi\nbye\n", 3},
		{"what nobody reads ends", "yes | head -n 2; while :; do echo more; done | head -n 1; seq 1 100000 | head -n 1", "y\ny\nmore\n1\n", 0},
		{"a timeout", "timeout 0.05 sleep 300; echo $?; timeout 60 bash -c 'exit 4'; echo $?; timeout -s KILL 0.05 bash -c 'while :; do :; done'; echo $?", "124\n4\n124\n", 0},
		{"a script's name and arguments", `printf 'echo $0 $# "$2"' > s.sh; bash s.sh a 'b c'; bash -c 'echo $0 $1' zero one`, "s.sh 2 b c\nzero one\n", 0},
		{"options of bash", "bash -euo pipefail -c 'false | true; echo not reached'; echo $?; bash -xc ':'", "1\n+ :\n", 0},
		{"a script from the input", "echo 'echo from stdin' | bash; bash -s <<< 'echo here'", "from stdin\nhere\n", 0},
		{"a program in PATH", `mkdir -p /usr/local/bin; printf '#!/bin/bash\necho tool $1\n' > /usr/local/bin/tool; chmod +x /usr/local/bin/tool; tool x; command -v tool cat cd`,
			"tool x\n/usr/local/bin/tool\n/usr/bin/cat\ncd\n", 0},
		{"a program that takes the place of another", `printf '#!/usr/bin/env bash\necho planted\n' > /usr/bin/cat; chmod 755 /usr/bin/cat; cat /etc/passwd; /bin/cat /etc/hostname`, "planted\nfake\n", 0},
		{"an unknown command", "no-such; echo $?", "bash: no-such: command not found (the fake environment has few)\n127\n", 0},
		{"an unknown program", "./no-such; echo $?", "bash: ./no-such: No such file or directory\n127\n", 0},
		{"a file that is not executable", "touch f; ./f; echo $?", "bash: ./f: Permission denied\n126\n", 0},
		{"another interpreter", "printf '#!/usr/bin/python3\n' > p; chmod +x p; ./p", "bash: ./p: #!/usr/bin/python3 is not there (the fake environment runs bash only)\n", 126},
		{"process substitution is refused", "cat <(echo x)", "bash: process substitution is not supported in the fake environment\n", 2},
		{"a syntax error", "echo 'open", "bash: bash:1:6: reached EOF without closing quote `'`\n", 2},
		{"the host is not there", "type -P go; command -v docker; test -e /work; pwd -P; echo ~; source /proc/version 2>/dev/null || echo none", "bash: type: go: not found\n/\n/root\nnone\n", 0},
		{"builtins by another name", "mkdir d; ln -s d l; cd() { builtin cd \"$@\"; }; cd l; command pwd -P; builtin type -P docker; command kill -0 $$ && echo there; command -v nothing || builtin echo none",
			"/d\nbash: type: docker: not found\nthere\nnone\n", 0},
		{"tests of owners", "[ -O /etc ] || test -w /etc && echo fine", "fine\n", 0},
		{"variables of one command", "X=1 bash -c 'echo $X'; env -i Y=2 bash -c 'echo $X$Y'; env -u HOME printenv HOME || echo none", "1\n2\nnone\n", 0},
		{"xargs", "printf 'a b\nc' | xargs echo -; printf 'a\nb c\n' | xargs -I{} echo '<{}>'; seq 3 | xargs -n 2 bash -c 'echo $#' zero", "- a b c\n<a>\n<b c>\n2\n1\n", 0},
		{"process list", "sleep 300 & ps > f; kill $!; wc -l < f; grep -c ' ps$' f", "4\n1\n", 0},
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
		{"head and tail", "seq 5 > f; head -n 2 f; tail -n 1 f; tail -2 f; tail -n +4 f; head -c 3 f; tail -c 2 f", "1\n2\n5\n4\n5\n4\n5\n1\n25\n", 0},
		{"wc", "printf 'a b\nc\n' > f; wc f; wc -l < f; wc -c f", "2 3 6 f\n2\n6 f\n", 0},
		{"grep", `printf 'one\ntwo\nTwo\n' > f; grep two f; grep -ci two f; grep -v o f; grep -q three f; echo $?; grep -E '^(o|T)' f; grep -o 't.' f; grep -F . f; echo $?; grep 'o\|x' f`,
			"two\n2\n1\none\nTwo\ntw\n1\none\ntwo\nTwo\n", 0},
		{"grep in files", "echo a > x; echo a > y; grep a x y; grep -n a x; grep a none; echo $?", "x:a\ny:a\n1:a\ngrep: none: No such file or directory\n2\n", 0},
		{"sed", `echo 'a.b a' | sed 's/a/[&&\&]/'; echo 'a/b a' | sed 's|a|x|g'; echo ab | sed -E 's/(a)(b)/\2\1$/'; echo old > f; sed -i s/old/new/ f; cat f; sed p f`,
			"[aa&].b a\nx/b x\nba$\nnew\nsed: only the command s is known (the fake environment knows few options)\n", 2},
		{"tr", "echo hello | tr a-y b-z; echo aabb | tr -s a; echo 'a b' | tr -d ' '; echo Ab | tr '[:upper:]' '[:lower:]'", "ifmmp\nabb\nab\nab\n", 0},
		{"sort, uniq and cut", "printf '10 b\n9 a\n9 a\n' > f; sort f; sort -n f; sort -ru f; sort -n f | uniq -c; cut -d' ' -f2 f; cut -c1-2 f", "10 b\n9 a\n9 a\n9 a\n9 a\n10 b\n9 a\n10 b\n      2 9 a\n      1 10 b\nb\na\na\n10\n9 \n9 \n", 0},
		{"checksums and base64", "printf abc | sha256sum; printf abc | base64; echo YWJj | base64 -d; printf abc | md5sum", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  -\nYWJj\nabc900150983cd24fb0d6963f7d28e17f72  -\n", 0},
		{"tee", "echo a | tee x y; echo b | tee -a x; cat x y", "a\nb\na\nb\na\n", 0},
		{"seq", "seq 2; seq 3 4; seq 6 -2 2; seq x; echo $?", "1\n2\n3\n4\n6\n4\n2\nseq: invalid number \"x\" (the fake environment knows few options)\n2\n", 0},
		{"cp and mv", "mkdir -p d/e; echo 1 > d/e/f; chmod 700 d/e/f; cp -r d c; mv d/e/f c; ls c; cp c/f g; stat -c '%a %n' c/e/f g; cp c x; mv none x; echo $?; cp -r c/. h; ls h",
			"e\nf\n700 c/e/f\n700 g\ncp: cannot do c: -r not specified; omitting directory\nmv: cannot do none: No such file or directory\n1\ne\nf\n", 0},
		{"a folder into itself", "mkdir -p a/b; mv a a/b; echo $?; ls", "mv: cannot do a: Invalid argument\n1\na\nbin\ndev\netc\nhome\nmnt\nopt\nproc\nroot\nrun\nsrv\ntmp\nusr\nvar\n", 0},
		{"rm", "mkdir d; touch d/f; rm d; rm -r d; rm -f none; rm none; echo $?; rmdir tmp; mkdir e; touch e/f; rmdir e", "rm: cannot do d: Is a directory\nrm: cannot do none: No such file or directory\n1\nrmdir: cannot do e: Directory not empty\n", 1},
		{"links", "echo x > a; ln -s a l; ln a h; cat l h; readlink l; stat -c %h a; rm a; cat h; cat l; ln -sf h l; cat l; readlink -f l", "x\nx\na\n2\nx\ncat: l: No such file or directory\nx\n/h\n", 0},
		{"links in folders", "mkdir -p d/e; ln -s d/e l; cd l/..; pwd; cd /; ls l/..; ln -s loop loop; cat loop", "/\ne\ncat: loop: Too many levels of symbolic links\n", 1},
		{"modes", "touch f; chmod 640 f; stat -c %a f; chmod u+x,g-r f; stat -c '%a %A' f; chmod a=r f; stat -c %a f; mkdir -m 1777 d; stat -c %a d; chmod -R go-rwx d; stat -c %a d", "640\n700 -rwx------\n444\n1777\n1700\n", 0},
		{"owners", "touch f; chown nobody:nogroup f; stat -c '%U %G' f; chown 12 f; stat -c '%u %g' f; chown nobodyelse f; ls -l f | cut -c1-10", "nobody nogroup\n12 65534\nchown: invalid owner: Nobodyelse is not in /etc/passwd\n-rw-r--r--\n", 0},
		{"find", "mkdir -p d/e; touch d/a.txt d/e/b.txt d/.c; ln -s a.txt d/l; find d -name '*.txt'; find d -type l -o -type d; find d -maxdepth 1 -type f -not -name '.*'; find d -newer x; echo $?", "d/a.txt\nd/e/b.txt\nd\nd/e\nd/l\nd/a.txt\nfind: unknown test -newer (the fake environment knows few options)\n2\n", 0},
		{"ls", "mkdir d; touch d/b d/a d/.h; ls d; ls -a d; ls /etc/hosts none; echo $?; ls -d d", "a\nb\n.h\na\nb\n/etc/hosts\nls: cannot access 'none': No such file or directory\n2\nd\n", 0},
		{"mktemp", "f=$(mktemp); d=$(mktemp -d); stat -c '%a %F' $f $d; case $f in /tmp/tmp.*) echo named;; esac", "600 regular empty file\n700 directory\nnamed\n", 0},
		{"paths", "basename /a/b.c .c; dirname /a/b; realpath /usr/../etc; basename x", "b\n/a\n/etc\nx\n", 0},
		{"dates and sleeps", "a=$(date +%s%N); sleep 0.001; b=$(date +%s%N); [ $b -gt $a ] && echo later; date -u +%Y-%m-%d | tr -d 0-9; sleep x", "later\n--\nsleep: invalid time interval \"x\" (the fake environment knows few options)\n", 2},
		{"devices", "head -c 4 /dev/zero | wc -c; cat /dev/null; echo gone > /dev/null; head -c 8 /dev/urandom | wc -c; echo err > /dev/stderr; cat < /dev/null", "4\n8\nerr\n", 0},
		{"sparse files", "truncate -s 1M f; wc -c < f; du f; echo x >> f; tail -c 2 f; truncate -s 3 f; cat f | tr '\\0' 0", "1048576\n1048576\tf\nx\n000", 0},
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
		mv /read /open; ln -s x /l; touch /read; chmod 777 /secret; chown nobody /secret; cd /closed; test -r /secret || echo unreadable; kill -9 1 2>/dev/null || echo spared`,
		environment.ExecOptions{User: "nobody", WorkDir: "/"})
	if n := strings.Count(got, "ermission denied") + strings.Count(got, "not permitted"); n != 12 {
		t.Errorf("%d refusals, want 12:\n%s", n, got)
	}
	for _, want := range []string{"r\n", "mine\n", "unreadable\n", "spared\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
}
