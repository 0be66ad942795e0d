package probe

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listen returns the address of a server that accepts connections.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { _ = serve(l) }()
	return l.Addr().String()
}

// nameServer returns the address of a server that answers questions with an answer; none: it is
// silent.
func nameServer(t *testing.T, answer func(question []byte) []byte) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := answer(buf[:n]); out != nil {
				_, _ = c.WriteTo(out, from)
			}
		}
	}()
	return c.LocalAddr().String()
}

// nobody returns a loopback address on which nothing listens.
func nobody(t *testing.T, network string) string {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		return c.LocalAddr().String()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Addr().String()
}

func TestOnlyConnectionsAndAnswersCount(t *testing.T) {
	refused := func(question []byte) []byte { // by the name server, which is an answer
		question[2] |= 0x80
		question[3] |= 5
		return question
	}
	for name, tc := range map[string]struct {
		target Target
		want   bool
	}{
		"a server that accepts":        {Target{Protocol: "tcp", Address: listen(t)}, true},
		"a connection that is refused": {Target{Protocol: "tcp", Address: nobody(t, "tcp")}, false},
		"a name server that answers":   {Target{Protocol: "udp", Address: nameServer(t, refused)}, true},
		"a port without a name server": {Target{Protocol: "udp", Address: nobody(t, "udp")}, false},
		"a silent name server":         {Target{Protocol: "udp", Address: nameServer(t, func([]byte) []byte { return nil })}, false},
		"an echo":                      {Target{Protocol: "udp", Address: nameServer(t, func(q []byte) []byte { return q })}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := tc.target.reach(); (err == nil) != tc.want {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTargetsOfAPod(t *testing.T) {
	env := map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", NodeVariable: "10.0.0.9"}
	const resolv = "search evals.svc.cluster.local\nnameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5\n"
	const routes = "Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0100F40A\t0003\neth0\t0000F40A\t00000000\t0001\n" // of a little-endian machine
	list := func(resolv, routes string) string {
		var all []string
		for _, at := range targets(func(name string) string { return env[name] }, resolv, routes) {
			all = append(all, at.Kind+" "+at.Protocol+" "+at.Address)
		}
		return strings.Join(all, "\n")
	}
	got := list(resolv, routes)
	for _, want := range []string{
		"dns udp 10.96.0.10:53", "dns tcp 10.96.0.10:53", "dns udp [fd00::a]:53", "api tcp 10.96.0.1:443", "metadata tcp 169.254.169.254:80",
		"node tcp 10.0.0.9:10250", "node tcp 10.0.0.9:22", "node tcp 10.244.0.1:10250",
	} {
		if !strings.Contains(got+"\n", want+"\n") {
			t.Errorf("%s is missing in:\n%s", want, got)
		}
	}
	env[AcceptedVariable] = "node,api"
	if got := list(resolv, routes); strings.Contains(got, "node ") || strings.Contains(got, "api ") || !strings.Contains(got, "dns ") {
		t.Errorf("with what may be reached:\n%s", got)
	}
	clear(env)
	if got := list("", "nonsense\n"); strings.Contains(got, "dns ") || strings.Contains(got, "node ") || !strings.Contains(got, "metadata ") {
		t.Errorf("without a cluster:\n%s", got)
	}
}

func TestWhatADeniedPodReaches(t *testing.T) {
	const patience = 500 * time.Millisecond
	leak, closed := Target{Kind: API, Protocol: "tcp", Address: listen(t)}, Target{Kind: Node, Protocol: "tcp", Address: nobody(t, "tcp")}
	for name, tc := range map[string]struct {
		address string
		targets []Target
		code    int
		reached []Target
	}{
		"nothing":                      {nobody(t, "tcp"), []Target{closed}, 0, nil},
		"another pod":                  {listen(t), []Target{leak, closed}, Unmet, nil},
		"a target, but no pod":         {nobody(t, "tcp"), []Target{closed, leak}, Leak, []Target{leak}},
		"nothing, and tries only that": {nobody(t, "tcp"), nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, message := denied(tc.address, tc.targets, patience)
			seen := ReadSeen(message)
			if code != tc.code || len(seen.Reached) != len(tc.reached) || len(tc.reached) > 0 && seen.Reached[0] != tc.reached[0] {
				t.Errorf("code %d, message %s", code, message)
			}
		})
	}
	open := look([]Target{leak, closed}, patience, looks, true)
	if len(open.Reached) != 1 || open.Reached[0] != leak || len(open.Silent) != 1 || open.Silent[0] != closed {
		t.Errorf("a pod without restrictions: %+v", open)
	}
}

// Policies reach nodes later than pods do, and one attempt that fails shows nothing.
func TestAttemptsUntilTheNetworkIsSettled(t *testing.T) {
	attempts := func(answers string) func() error {
		return func() error {
			yes := answers[0] == 'y'
			answers = answers[1:]
			if yes {
				return nil
			}
			return syscall.ECONNREFUSED
		}
	}
	for _, tc := range []struct {
		answers string
		limit   int
		wanted  bool
		want    bool
	}{
		{"yynn", 0, false, false}, // the policy comes later
		{"nynn", 0, false, false},
		{"nny", 0, true, true}, // the server does
		{"nn", 2, true, false},
	} {
		reached, err := settle(attempts(tc.answers), time.Hour, tc.limit, tc.wanted)
		if reached != tc.want || tc.limit > 0 && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: reached %t, %v", tc.answers, reached, err)
		}
	}
	if reached, _ := settle(attempts("y"), 0, 0, false); !reached {
		t.Error("what is reached until the end is reached")
	}
}
