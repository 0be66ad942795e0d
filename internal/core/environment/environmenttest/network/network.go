package network

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// networkChecks check which addresses can be reached in each mode.
func networkChecks() []suite.Check {
	return []suite.Check{
		{Name: "a public environment reaches the network", Run: needsServer(checkPublic)},
		{Name: "an environment without a network reaches nothing", Run: needsServer(checkNone)},
		{Name: "an allowlist allows listed hosts and reports others", Run: needsServer(checkAllowlist)},
		{Name: "an allowlist without hosts allows nothing", Run: needsServer(checkEmptyAllowlist)},
		{Name: "an allowlist that cannot be read makes no environment", Run: needsServer(checkBadAllowlist)},
		{Name: "a network that is taken away is gone for what ran before", Run: suite.Needing(suite.NetworkSetter, needsServer(checkTaken))},
		{Name: "a connection does not outlive the network that it was made in", Run: suite.Needing(suite.NetworkSetter, needsServer(checkCut))},
		{Name: "a network that is added later works, and processes keep running", Run: suite.Needing(suite.NetworkSetter, needsServer(checkGiven))},
		{Name: "a list takes the place of another", Run: suite.Needing(suite.NetworkSetter, needsServer(checkOtherList))},
		{Name: "the proxies of two environments are separate", Run: needsServer(checkDoors)},
		{Name: "servers on loopback are each environment's own", Run: checkLoopback},
		{Name: "servers on this machine's loopback are not reached", Run: checkMachine},
		{Name: "names lead to hosts", Run: checkNames},
		{Name: "processes outlive the network that they had", Run: suite.Needing(suite.NetworkSetter, checkOutlive)},
		{Name: "the network of a destroyed environment cannot be set", Run: suite.Needing(suite.NetworkSetter, needsServer(checkSetLost))},
	}
}

func needsServer(run func(s *suite.Scene)) func(s *suite.Scene) {
	return func(s *suite.Scene) {
		if s.Opts.Serve == nil {
			s.Skip("Options.Serve is not given")
		}
		run(s)
	}
}

// networked creates an environment with this network, the client and the tools.
func networked(s *suite.Scene, n environment.Network) *suite.Env {
	client := environment.Copy{Src: fstest.MapFS{"client.sh": {Data: []byte(s.Opts.NetworkClient), Mode: 0o644}}, Dst: "/n"}
	return s.Create(func(o *environment.CreateOptions) {
		o.Network, o.Files = n, []environment.Copy{client, s.Tools()}
	})
}

// gets reports whether fetch or direct, the way, reaches a server. If it should, it may take a
// minute: a busy machine loses packets.
func gets(b *suite.Env, way, address string, should bool) bool {
	patience := map[bool]string{true: "patience=60; "}[should]
	o := b.Do(b.Scene.Ctx, ". /n/client.sh; "+patience+way+" "+address, environment.ExecOptions{})
	if o.Err != nil {
		b.Scene.Fatalf("%s %s: %v", way, address, o.Err)
	}
	return o.Code == 0 && o.Stdout == "hello\n"
}

// wantGets checks fetch and direct.
func wantGets(b *suite.Env, when, address string, fetch, direct bool) {
	b.Scene.Helper()
	if got := gets(b, "fetch", address, fetch); got != fetch {
		b.Scene.Errorf("%s: fetch %s: %t, want %t", when, address, got, fetch)
	}
	if got := gets(b, "direct", address, direct); got != direct {
		b.Scene.Errorf("%s: directly to %s: %t, want %t", when, address, got, direct)
	}
}

func allow(hosts ...string) environment.Network {
	return environment.Network{Mode: environment.NetworkAllowlist, Hosts: hosts}
}

func checkPublic(s *suite.Scene) {
	address := s.Opts.Serve(s)
	wantGets(networked(s, environment.Network{}), "by default", address, true, true)
	wantGets(networked(s, environment.Network{Mode: environment.NetworkPublic}), "public", address, true, true)
}

func checkNone(s *suite.Scene) {
	address := s.Opts.Serve(s)
	wantGets(networked(s, suite.None), "none", address, false, false)
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

func checkAllowlist(s *suite.Scene) {
	listed, other := s.Opts.Serve(s), s.Opts.Serve(s)
	var refused refusals
	env := networked(s, refused.hear(allow(listed)))
	wantGets(env, "listed", listed, true, false)
	if refused.has(listed) {
		s.Errorf("a listed host was refused: %v", refused.all)
	}
	wantGets(env, "not listed", other, false, false)
	if !refused.has(other) {
		s.Errorf("the refusal of %s was not reported: %v", other, refused.all)
	}
}

func checkEmptyAllowlist(s *suite.Scene) {
	wantGets(networked(s, allow()), "an empty list", s.Opts.Serve(s), false, false)
}

func checkBadAllowlist(s *suite.Scene) {
	env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels, Network: allow("http://x/")})
	if err == nil {
		_ = env.Destroy(s.Ctx)
	}
	s.WantKind("CreateEnvironment", err, environment.KindStart)
}

func checkTaken(s *suite.Scene) {
	address := s.Opts.Serve(s)
	env := networked(s, environment.Network{})
	env.Run(". /n/client.sh; (while :; do fetch " + address + " >> /k/got; sleep 0.02; done) >/dev/null 2>&1 &")
	s.Equal("before", env.Run(". /k/lib.sh; reached got 12"), "")
	env.SetNetwork(suite.None)
	s.Equal("what ran before", env.Run(". /k/lib.sh; a=$(size got); sleep 0.3; [ $(size got) = $a ] || echo goes on"), "")
	wantGets(env, "taken away", address, false, false)
}

// A part of the stream may have been read when the network is removed, but nothing may arrive
// afterwards.
func checkCut(s *suite.Scene) {
	address := s.Opts.Serve(s)
	for _, c := range []struct {
		what     string
		from, to environment.Network
	}{
		{"public, then none", environment.Network{}, suite.None},
		{"public, then an empty list", environment.Network{}, allow()},
		{"listed, then none", allow(address), suite.None},
		{"listed, then another list", allow(address), allow("192.0.2.1")},
	} {
		env := networked(s, c.from)
		env.Run(". /n/client.sh; stream " + address + " >/k/stream 2>/dev/null &")
		s.Equal(c.what+": before", env.Run(". /k/lib.sh; reached stream 20"), "")
		env.SetNetwork(c.to)
		// Data in flight when the network was removed may be in a buffer.
		s.Equal(c.what, env.Run(". /k/lib.sh; sleep 0.1; a=$(size stream); sleep 0.3; [ $(size stream) = $a ] || echo goes on"), "")
	}
}

func checkGiven(s *suite.Scene) {
	address := s.Opts.Serve(s)
	for _, to := range []environment.Network{{Mode: environment.NetworkPublic}, allow(address)} {
		env := networked(s, suite.None)
		env.Run("bash /k/tick.sh server >/dev/null 2>&1 &")
		if gets(env, "fetch", address, false) {
			s.Errorf("%v: reached before", to)
		}
		env.SetNetwork(to)
		if !gets(env, "fetch", address, true) {
			s.Errorf("%v: not reached", to)
		}
		s.Equal("what ran before", env.Run(". /k/lib.sh; grown server 20"), "")
		env.SetNetwork(suite.None)
		wantGets(env, "taken away again", address, false, false)
	}
}

func checkOtherList(s *suite.Scene) {
	one, two := s.Opts.Serve(s), s.Opts.Serve(s)
	env := networked(s, allow(one))
	wantGets(env, "before", one, true, false)
	env.SetNetwork(allow(two))
	wantGets(env, "the one of before", one, false, false)
	wantGets(env, "the new one", two, true, false)
}

func checkDoors(s *suite.Scene) {
	one, two := s.Opts.Serve(s), s.Opts.Serve(s)
	a, b := networked(s, allow(one)), networked(s, allow(two))
	wantGets(a, "one's own", one, true, false)
	wantGets(a, "the other's", two, false, false)
	wantGets(b, "two's own", two, true, false)
	wantGets(b, "the other's", one, false, false)
	if err := a.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	wantGets(b, "when the other is gone", two, true, false)
}

// Two environments use the same port at the same time, like trials of one task.
func checkLoopback(s *suite.Scene) {
	const port = "8123"
	a, b := networked(s, environment.Network{}), networked(s, environment.Network{})
	serve := func(env *suite.Env) {
		env.Run(". /n/client.sh; serve " + port)
		if !gets(env, "direct", "127.0.0.1:"+port, true) {
			s.Fatalf("the server on port %s is not reached", port)
		}
	}
	serve(a)
	if gets(b, "direct", "127.0.0.1:"+port, false) {
		s.Error("an environment reaches another one's server")
	}
	serve(b)
	if err := a.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	if !gets(b, "direct", "127.0.0.1:"+port, true) {
		s.Error("a server is gone with another environment")
	}
}

func checkMachine(s *suite.Scene) {
	if s.Opts.Local == nil {
		s.Skip("Options.Local is not given")
	}
	env := networked(s, environment.Network{})
	for _, address := range s.Opts.Local(s) {
		if gets(env, "direct", address, false) || gets(env, "fetch", address, false) {
			s.Errorf("%s of this machine is reached", address)
		}
	}
}

func checkNames(s *suite.Scene) {
	if s.Opts.ServeName == nil {
		s.Skip("Options.ServeName is not given")
	}
	wantGets(networked(s, environment.Network{}), "by name", s.Opts.ServeName(s), true, true)
}

func checkOutlive(s *suite.Scene) {
	env := networked(s, environment.Network{})
	env.Run("bash /k/tick.sh early >/dev/null 2>&1 &")
	for _, n := range []environment.Network{suite.None, allow("192.0.2.1"), {}} {
		env.SetNetwork(n)
		s.Equal(n.String()+": what ran before", env.Run(". /k/lib.sh; grown early 20"), "")
	}
}

func checkSetLost(s *suite.Scene) {
	env := networked(s, environment.Network{})
	if err := env.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	for _, n := range []environment.Network{suite.None, allow("192.0.2.1")} {
		s.WantKind("SetNetwork", environment.SetNetwork(s.Ctx, env.Environment, n), environment.KindLost)
	}
}
