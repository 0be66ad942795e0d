package environmenttest

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// BashClient is Options.NetworkClient for environments with a real bash. fetch behaves like
// programs that support proxies.
const BashClient = `
request() { # VIA TARGET HOST
	local code line
	{
		printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$2" "$3" >&7
		read -r _ code _ <&7
		[ "$code" = 200 ] || return 22
		while read -r line <&7 && [ -n "${line%$'\r'}" ]; do :; done
		cat <&7
	} 7<>"/dev/tcp/${1%:*}/${1##*:}"
}
# What drops packets, as the networks of clusters do, lets a connection fail after minutes only.
direct() { timeout 10 bash -c "$(declare -f request); request \"\$1\" / \"\$1\"" bash "$1"; }
fetch() { if [ -n "$http_proxy" ]; then request "${http_proxy#http://}" "http://$1/" "$1"; else direct "$1"; fi; }
serve() { # PORT
	perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, ReuseAddr => 1, LocalAddr => "127.0.0.1:$ARGV[0]") or die "$!";
		while ($c = $s->accept) { while (<$c>) { last if /^\s*$/ } print $c "HTTP/1.0 200 OK\r\n\r\nhello\n"; close $c }' "$1" >/dev/null 2>&1 &
}
stream() { if [ -n "$http_proxy" ]; then request "${http_proxy#http://}" "http://$1/stream" "$1"; else request "$1" /stream "$1"; fi; }
`

// networkChecks check which addresses can be reached in each mode.
func networkChecks() []check {
	return []check{
		{"a public environment reaches the network", needsServer(checkPublic)},
		{"an environment without a network reaches nothing", needsServer(checkNone)},
		{"an allowlist allows what is listed and reports what is not", needsServer(checkAllowlist)},
		{"an allowlist without hosts allows nothing", needsServer(checkEmptyAllowlist)},
		{"an allowlist that cannot be read makes no environment", needsServer(checkBadAllowlist)},
		{"a network that is taken away is gone for what ran before", needing(networkSetter, needsServer(checkTaken))},
		{"a connection does not outlive the network that it was made in", needing(networkSetter, needsServer(checkCut))},
		{"a network that is given later is there, and so is what ran before", needing(networkSetter, needsServer(checkGiven))},
		{"a list takes the place of another", needing(networkSetter, needsServer(checkOtherList))},
		{"the proxies of two environments are separate", needsServer(checkDoors)},
		{"servers on loopback are each environment's own", checkLoopback},
		{"servers on this machine's loopback are not reached", checkMachine},
		{"names lead to hosts", checkNames},
		{"processes outlive the network that they had", needing(networkSetter, checkOutlive)},
		{"the network of a destroyed environment cannot be set", needing(networkSetter, needsServer(checkSetLost))},
	}
}

func needsServer(run func(s *scene)) func(s *scene) {
	return func(s *scene) {
		if s.opts.Serve == nil {
			s.Skip("Options.Serve is not given")
		}
		run(s)
	}
}

// networked creates an environment with this network, the client and the tools.
func (s *scene) networked(n environment.Network) *box {
	client := environment.Copy{Src: fstest.MapFS{"client.sh": {Data: []byte(s.opts.NetworkClient), Mode: 0o644}}, Dst: "/n"}
	return s.create(func(o *environment.CreateOptions) {
		o.Network, o.Files = n, []environment.Copy{client, s.tools()}
	})
}

// gets reports whether fetch or direct, the way, reaches a server.
func (b *box) gets(way, address string) bool {
	o := b.exec(b.s.ctx, ". /n/client.sh; "+way+" "+address, environment.ExecOptions{})
	if o.err != nil {
		b.s.Fatalf("%s %s: %v", way, address, o.err)
	}
	return o.code == 0 && o.stdout == "hello\n"
}

// wantGets checks fetch and direct.
func (b *box) wantGets(when, address string, fetch, direct bool) {
	b.s.Helper()
	if got := b.gets("fetch", address); got != fetch {
		b.s.Errorf("%s: fetch %s: %t, want %t", when, address, got, fetch)
	}
	if got := b.gets("direct", address); got != direct {
		b.s.Errorf("%s: directly to %s: %t, want %t", when, address, got, direct)
	}
}

func (b *box) setNetwork(n environment.Network) {
	b.s.Helper()
	var err error
	b.s.within("SetNetwork", func() { err = environment.SetNetwork(b.s.ctx, b.Environment, n) })
	if err != nil {
		b.s.Fatalf("SetNetwork(%v): %v", n, err)
	}
}

var none = environment.Network{Mode: environment.NetworkNone}

func allow(hosts ...string) environment.Network {
	return environment.Network{Mode: environment.NetworkAllowlist, Hosts: hosts}
}

func checkPublic(s *scene) {
	address := s.opts.Serve(s)
	s.networked(environment.Network{}).wantGets("by default", address, true, true)
	s.networked(environment.Network{Mode: environment.NetworkPublic}).wantGets("public", address, true, true)
}

func checkNone(s *scene) {
	address := s.opts.Serve(s)
	s.networked(none).wantGets("none", address, false, false)
}

// refusals records the requests that a proxy refused.
type refusals struct {
	mu  sync.Mutex
	all []environment.Refusal
}

func (r *refusals) hear(n environment.Network) environment.Network {
	n.Refused = func(no environment.Refusal) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, no)
	}
	return n
}

func (r *refusals) has(address string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(no environment.Refusal) bool {
		return net.JoinHostPort(no.Host, strconv.Itoa(int(no.Port))) == address && no.Reason != ""
	})
}

func checkAllowlist(s *scene) {
	listed, other := s.opts.Serve(s), s.opts.Serve(s)
	var refused refusals
	env := s.networked(refused.hear(allow(listed)))
	env.wantGets("listed", listed, true, false)
	if refused.has(listed) {
		s.Errorf("what is listed was refused: %v", refused.all)
	}
	env.wantGets("not listed", other, false, false)
	if !refused.has(other) {
		s.Errorf("nobody was told that %s was refused: %v", other, refused.all)
	}
}

func checkEmptyAllowlist(s *scene) {
	s.networked(allow()).wantGets("an empty list", s.opts.Serve(s), false, false)
}

func checkBadAllowlist(s *scene) {
	env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: s.opts.Image, Labels: s.labels, Network: allow("http://x/")})
	if err == nil {
		_ = env.Destroy(s.ctx)
	}
	s.wantKind("CreateEnvironment", err, environment.KindStart)
}

func checkTaken(s *scene) {
	address := s.opts.Serve(s)
	env := s.networked(environment.Network{})
	env.run(". /n/client.sh; (while :; do fetch " + address + " >> /k/got; sleep 0.02; done) >/dev/null 2>&1 &")
	s.equal("before", env.run(". /k/lib.sh; reached got 12"), "")
	env.setNetwork(none)
	s.equal("what ran before", env.run(". /k/lib.sh; a=$(size got); sleep 0.3; [ $(size got) = $a ] || echo goes on"), "")
	env.wantGets("taken away", address, false, false)
}

// A part of the stream may have been read when the network is removed, but nothing may arrive
// afterwards.
func checkCut(s *scene) {
	address := s.opts.Serve(s)
	for _, c := range []struct {
		what     string
		from, to environment.Network
	}{
		{"public, then none", environment.Network{}, none},
		{"public, then an empty list", environment.Network{}, allow()},
		{"listed, then none", allow(address), none},
		{"listed, then another list", allow(address), allow("192.0.2.1")},
	} {
		env := s.networked(c.from)
		env.run(". /n/client.sh; stream " + address + " >/k/stream 2>/dev/null &")
		s.equal(c.what+": before", env.run(". /k/lib.sh; reached stream 20"), "")
		env.setNetwork(c.to)
		// Data in flight when the network was removed may be in a buffer.
		s.equal(c.what, env.run(". /k/lib.sh; sleep 0.1; a=$(size stream); sleep 0.3; [ $(size stream) = $a ] || echo goes on"), "")
	}
}

func checkGiven(s *scene) {
	address := s.opts.Serve(s)
	for _, to := range []environment.Network{{Mode: environment.NetworkPublic}, allow(address)} {
		env := s.networked(none)
		env.run("bash /k/tick.sh server >/dev/null 2>&1 &")
		if env.gets("fetch", address) {
			s.Errorf("%v: reached before", to)
		}
		env.setNetwork(to)
		if !env.gets("fetch", address) {
			s.Errorf("%v: not reached", to)
		}
		s.equal("what ran before", env.run(". /k/lib.sh; grown server 20"), "")
		env.setNetwork(none)
		env.wantGets("taken away again", address, false, false)
	}
}

func checkOtherList(s *scene) {
	one, two := s.opts.Serve(s), s.opts.Serve(s)
	env := s.networked(allow(one))
	env.wantGets("before", one, true, false)
	env.setNetwork(allow(two))
	env.wantGets("the one of before", one, false, false)
	env.wantGets("the new one", two, true, false)
}

func checkDoors(s *scene) {
	one, two := s.opts.Serve(s), s.opts.Serve(s)
	a, b := s.networked(allow(one)), s.networked(allow(two))
	a.wantGets("one's own", one, true, false)
	a.wantGets("the other's", two, false, false)
	b.wantGets("two's own", two, true, false)
	b.wantGets("the other's", one, false, false)
	if err := a.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	b.wantGets("when the other is gone", two, true, false)
}

// Two environments use the same port at the same time, like trials of one task.
func checkLoopback(s *scene) {
	const port = "8123"
	a, b := s.networked(environment.Network{}), s.networked(environment.Network{})
	serve := func(env *box) {
		env.run(". /n/client.sh; serve " + port)
		env.run(". /n/client.sh; for ((i = 0; i < 1000; i++)); do direct 127.0.0.1:" + port + " 2>/dev/null && exit; sleep 0.05; done; exit 1")
	}
	serve(a)
	if b.gets("direct", "127.0.0.1:"+port) {
		s.Error("an environment reaches another one's server")
	}
	serve(b)
	if err := a.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	if !b.gets("direct", "127.0.0.1:"+port) {
		s.Error("a server is gone with another environment")
	}
}

func checkMachine(s *scene) {
	if s.opts.Local == nil {
		s.Skip("Options.Local is not given")
	}
	env := s.networked(environment.Network{})
	for _, address := range s.opts.Local(s) {
		if env.gets("direct", address) || env.gets("fetch", address) {
			s.Errorf("%s of this machine is reached", address)
		}
	}
}

func checkNames(s *scene) {
	if s.opts.ServeName == nil {
		s.Skip("Options.ServeName is not given")
	}
	s.networked(environment.Network{}).wantGets("by name", s.opts.ServeName(s), true, true)
}

func checkOutlive(s *scene) {
	env := s.networked(environment.Network{})
	env.run("bash /k/tick.sh early >/dev/null 2>&1 &")
	for _, n := range []environment.Network{none, allow("192.0.2.1"), {}} {
		env.setNetwork(n)
		s.equal(n.String()+": what ran before", env.run(". /k/lib.sh; grown early 20"), "")
	}
}

func checkSetLost(s *scene) {
	env := s.networked(environment.Network{})
	if err := env.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	for _, n := range []environment.Network{none, allow("192.0.2.1")} {
		s.wantKind("SetNetwork", environment.SetNetwork(s.ctx, env.Environment, n), environment.KindLost)
	}
}
