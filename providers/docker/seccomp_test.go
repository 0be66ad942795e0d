package docker

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"

	"github.com/org/rollout-action/internal/core/environment"
)

// No namespace keeps these in, or they are large parts of the kernel that trials do not need.
// Ordinary sockets can be made.
func TestDangerousCallsAreRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	for _, n := range []environment.Network{{}, offline} {
		env := newEnvironment(t, p, environment.CreateOptions{Network: n})
		got := run(t, env, `perl -e '
			use Socket; require "syscall.ph" if 0;
			for my $f (40, 38, 1, 2, 10, 16) { print "$f ", (socket(my $s, $f, $f == 38 ? 5 : $f == 16 ? 3 : 1, 0) ? "made" : "refused"), "\n" }
			my $p = "\0" x 256; print "io_uring ", (syscall(425, 1, $p) == -1 && $!{EPERM} ? "refused" : "made"), "\n"'`)
		if want := "40 refused\n38 refused\n1 made\n2 made\n10 made\n16 made\nio_uring refused\n"; got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}

func TestAdministratorsSeccompProfileIsKept(t *testing.T) {
	for option, ours := range map[string]bool{
		"name=seccomp,profile=default": true, "name=seccomp,profile=builtin": true,
		"name=seccomp,profile=/etc/docker/seccomp.json": false, "name=seccomp,profile=unconfined": false, "name=apparmor": false,
	} {
		p := &Provider{info: system.Info{SecurityOptions: []string{option}}}
		if got := p.securityOptions(); (len(got) > 0) != ours {
			t.Errorf("%s: %d options", option, len(got))
		}
	}
	if strings.Count(seccomp(), `"socketcall"`) != 1 {
		t.Error("socketcall is not in one rule")
	}
}
