package fake_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/fake"
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

// run returns the combined output of a script, and its exit code.
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

// TestShell tests our additions to the interpreter: child shells, files as programs, and builtins
// that would access the host.
func TestShell(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		code               int
	}{
		{"a job's exit code is waited for", "(exit 7) & wait $!", "", 7},
		{"a script that leaves a job running ends", "sleep 300 & echo started", "started\n", 0},
		{"jobs in a sourced script, in eval and in a function", "echo '(exit 5) & wait $!; echo $?' > s; . ./s; eval '(exit 6) & wait $!; echo $?'; f() { (exit 7) & wait $!; echo $?; }; f", "5\n6\n7\n", 0},
		{"a sourced script that is not there", ". ./none; echo $?", "source: use /./none: no such file or directory\n1\n", 0},
		{"an exit trap runs", "trap 'echo bye' EXIT; echo hi; exit 3", "hi\nbye\n", 3},
		{"a script's name and arguments", `printf 'echo $0 $# "$2"' > s.sh; bash s.sh a 'b c'; bash -c 'echo $0 $1' zero one`, "s.sh 2 b c\nzero one\n", 0},
		{"a script that is not there", "bash none.sh", "bash: none.sh: No such file or directory\n", 127},
		{"options of bash", "bash -euo pipefail -c 'false | true; echo not reached'; echo $?; bash --norc -xc ':'; bash -e -- -c", "1\n+ :\nbash: -c: No such file or directory\n", 127},
		{"a script from the input", "echo 'echo from stdin' | bash; bash -s <<< 'echo here'", "from stdin\nhere\n", 0},
		{"a program that takes the place of another", `printf '#!/bin/bash\necho planted\n' > /usr/bin/cat; chmod 755 /usr/bin/cat; cat /etc/passwd; /bin/cat /etc/passwd`, "planted\nroot:x:0:0:root:/root:/bin/bash\n", 0},
		{"a program in PATH", "mkdir -p /usr/local/bin; echo 'echo tool $1' > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool; tool x", "tool x\n", 0},
		{"an unknown command", "no-such; echo $?", "bash: no-such: command not found\n127\n", 0},
		{"an unknown program", "./no-such; echo $?", "bash: ./no-such: No such file or directory\n127\n", 0},
		{"a file that is not executable", "touch f; ./f; echo $?; [ -x f ] || [ -r f ] && echo readable", "bash: ./f: Permission denied\n126\nreadable\n", 0},
		{"process substitution is refused", "cat <(echo x)", "bash: the fake environment does not know process substitutions\n", 2},
		{"what would look at the host is refused", "command -v sh; type sh; pwd -P; echo $?; pwd", "bash: command -v would look at the host (the fake environment knows few options)\nbash: type sh would look at the host (the fake environment knows few options)\nbash: pwd -P would look at the host (the fake environment knows few options)\n2\n/\n", 0},
		{"a syntax error", "echo 'open", "bash: bash:1:6: reached EOF without closing quote `'`\n", 2},
		{"variables of one command, and of children", "X=1 bash -c 'echo $X'; Y=2; bash -c 'echo y$Y'; export Y; bash -c 'echo y$Y'; unset Y; bash -c 'echo y$Y $UID $HOME'", "1\ny\ny2\ny 0 /root\n", 0},
		{"globs and tests see the environment's files", "mkdir d; touch d/a d/b; echo d/* /go.mod*; [ -d d ] && [ ! -e /usr/lib ] && echo only", "d/a d/b /go.mod*\nonly\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, code := run(t, newEnvironment(t), tt.script, environment.ExecOptions{})
			if got != tt.want || code != tt.code {
				t.Errorf("got %q, exit code %d\nwant %q, exit code %d", got, code, tt.want, tt.code)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		code               int
	}{
		{"wc", "printf 'b c\na b\n' > f; wc -l < f; wc -c f; wc none", "2\n8 f\nwc: none: No such file or directory\n", 1},
		{"grep", "printf 'one\ntwo\n' > f; grep tw f; grep -q three f; echo $?; grep x none; echo $?", "two\n1\ngrep: none: No such file or directory\n2\n", 0},
		{"cp and mv", "mkdir -p d/e; echo 1 > d/e/f; chmod 700 d/e/f; cp d/e/f g; mv d c; cat c/e/f; ./g; cp c x; mv none x", "1\nbash: 1: command not found\ncp: c: Is a directory\nmv: none: No such file or directory\n", 1},
		{"mv replaces what may be replaced", "echo 1 > a; echo 2 > b; mv a b; cat b; mkdir d e; touch d/f; mv -f e d; ls d; mkdir -p g/e/x; mv d/e g", "1\ne\nf\nmv: d/e: Directory not empty\n", 1},
		{"chmod knows octal modes", "touch f; chmod rwx f; chmod 9 f; chmod 755 none", "chmod: f: Invalid mode\nchmod: f: Invalid mode\nchmod: none: No such file or directory\n", 1},
		{"rm", "mkdir d; touch d/f; rm d; rm -r d; rm -f none; rm none", "rm: d: Is a directory\nrm: none: No such file or directory\n", 1},
		{"links", "echo x > a; ln -s a l; ln a h; cat l h; rm a; cat h; cat l; ln -sf h l; cat l; mkdir -p d/e; ln -s d/e k; ls k/..; ln -s loop loop; cat loop", "x\nx\nx\ncat: l: No such file or directory\nx\ne\ncat: loop: Too many levels of symbolic links\n", 1},
		{"ls", "mkdir d; touch d/b d/a d/.h; ls d; ls -A d; ls /etc/passwd none; ls -d d", "a\nb\n.h\na\nb\n/etc/passwd\nls: none: No such file or directory\nd\n", 0},
		{"mkdir", "mkdir d; mkdir d; mkdir -p d/e; touch f; mkdir f/g; ls d", "mkdir: d: File exists\nmkdir: f/g: Not a directory\ne\n", 0},
		{"dates and sleeps", "a=$(date +%s%N); sleep 0.001; b=$(date +%s%N); [ $b -gt $a ] && echo later; date; sleep x", "later\ndate: want +%s%N (the fake environment knows few options)\nsleep: x: Invalid time interval\n", 1},
		{"nothing is in /dev/null", "echo gone > /dev/null; cat /dev/null; cat < /dev/null; wc -c < /dev/null", "0\n", 0},
		{"what is appended while others write", "echo a > f; (echo b; echo c) >> f; echo d > g; cat f g", "a\nb\nc\nd\n", 0},
		{"an unknown option", "rm -x", "rm: unknown option -x (the fake environment knows few options)\n", 2},
		{"what follows two dashes is no option", "touch -- -x; ls; rm -- -x; ls | grep -x", "-x\nbin\ndev\netc\nhome\nmnt\nopt\nroot\nrun\nsrv\ntmp\nusr\nvar\ngrep: unknown option -x (the fake environment knows few options)\n", 2},
		{"nohup and setsid run a command", "nohup setsid cat /etc/passwd; setsid", "root:x:0:0:root:/root:/bin/bash\nsetsid: missing operand (the fake environment knows few options)\n", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, code := run(t, newEnvironment(t), tt.script, environment.ExecOptions{})
			if got != tt.want || code != tt.code {
				t.Errorf("got %q, exit code %d\nwant %q, exit code %d", got, code, tt.want, tt.code)
			}
		})
	}
}

// TestClonesAreApart: an image, its environments and the images made of these share data, but no
// changes.
func TestClonesAreApart(t *testing.T) {
	p := fake.New(fake.Options{World: fake.NewWorld()})
	make := func(image string) environment.Environment {
		env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: image})
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	first := make("debian:bookworm")
	run(t, first, "echo one > f; echo two >> f", environment.ExecOptions{})
	ref, err := environment.Snapshot(t.Context(), first, environment.SnapshotOptions{Key: strings.Repeat("0", 16)})
	if err != nil {
		t.Fatal(err)
	}
	a, b := make(ref), make(ref)
	run(t, a, "echo a >> f", environment.ExecOptions{})
	run(t, b, "echo b >> f; { echo c; sleep 0.01; echo d; } > g", environment.ExecOptions{})
	for env, want := range map[environment.Environment]string{a: "one\ntwo\na\n", b: "one\ntwo\nb\nc\nd\n", make(ref): "one\ntwo\n"} {
		if got, _ := run(t, env, "cat f; [ ! -e g ] || cat g", environment.ExecOptions{}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRootIsTheOnlyUser(t *testing.T) {
	env := newEnvironment(t)
	for user, kind := range map[string]environment.Kind{"": "", "root": "", "0": "", "nobody": environment.KindExec, "1234": environment.KindExec} {
		if _, err := env.Exec(t.Context(), "true", environment.ExecOptions{User: user}); environment.KindOf(err) != kind {
			t.Errorf("%q: %v", user, err)
		}
	}
}

func TestAllowlistIsRefused(t *testing.T) {
	p := fake.New(fake.Options{})
	for mode, kind := range map[environment.NetworkMode]environment.Kind{"": "", environment.NetworkNone: "", environment.NetworkAllowlist: environment.KindStart} {
		if _, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: "x", Network: environment.Network{Mode: mode}}); environment.KindOf(err) != kind {
			t.Errorf("%q: %v", mode, err)
		}
	}
}
