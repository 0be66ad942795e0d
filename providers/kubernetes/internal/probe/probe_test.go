package probe

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
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
			go func(question []byte) {
				if out := answer(question); out != nil {
					_, _ = c.WriteTo(out, from)
				}
			}(slices.Clone(buf[:n]))
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
	env := map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", NodeVariable: "10.0.0.9", NodesVariable: "10.0.0.9,fd00::9",
	}
	const zeros = "00000000000000000000000000000000"
	known := facts{
		resolvConf: "search evals.svc.cluster.local\nnameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5\n",
		routes:     "Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0100F40A\t0003\neth0\t0000F40A\t00000000\t0001\n", // of a little-endian machine
		routes6: "fd000000000000000000000000000000 40 " + zeros + " 00 " + zeros + " 00000100 00000001 00000000 00000001     eth0\n" +
			zeros + " 00 " + zeros + " 00 " + zeros + " ffffffff 00000001 00000000 00200200       lo\n" +
			zeros + " 00 " + zeros + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n",
		pods: "[fd00::5]:8411",
	}
	list := func(known facts) string {
		var all []string
		for _, at := range targets(func(name string) string { return env[name] }, known) {
			all = append(all, at.Kind+" "+at.Protocol+" "+at.Address)
		}
		return strings.Join(all, "\n")
	}
	got := list(known)
	for _, want := range []string{
		"dns udp 10.96.0.10:53", "dns tcp 10.96.0.10:53", "dns udp [fd00::a]:53", "api tcp 10.96.0.1:443", "metadata tcp 169.254.169.254:80",
		"node tcp 10.0.0.9:10250", "node tcp 10.0.0.9:22", "node tcp [fd00::9]:10250", "node tcp 10.244.0.1:10250", "node tcp [fe80::1%eth0]:22", "pod tcp [fd00::5]:8411",
	} {
		if strings.Count("\n"+got+"\n", "\n"+want+"\n") != 1 {
			t.Errorf("%s is not there once in:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "node "); n != 20 { // of two gateways and two addresses of the node
		t.Errorf("%d servers of nodes in:\n%s", n, got)
	}
	env[AcceptedVariable] = "node,api"
	if got := list(known); strings.Contains(got, "node ") || strings.Contains(got, "api ") || !strings.Contains(got, "dns ") {
		t.Errorf("with what may be reached:\n%s", got)
	}
	clear(env)
	if got := list(facts{routes: "nonsense\n", routes6: "nonsense\n" + zeros + " 00 x\n"}); strings.Contains(got, "dns ") || strings.Contains(got, "node ") || !strings.Contains(got, "metadata ") {
		t.Errorf("without a cluster:\n%s", got)
	}
}

// The message of a pod with all targets that there may be fits into a termination message, of which
// a kubelet reads 4 KiB.
func TestMessagesFit(t *testing.T) {
	const host = "fd00:1234:5678:9abc:def0:1234:5678:"
	env := map[string]string{
		"KUBERNETES_SERVICE_HOST": host + "1", "KUBERNETES_SERVICE_PORT": "443", NodeVariable: "10.100.100.100", NodesVariable: "10.100.100.100," + host + "9",
	}
	var s Seen
	s.Silent = targets(func(name string) string { return env[name] }, facts{
		resolvConf: "nameserver " + host + "a\nnameserver " + host + "b\nnameserver " + host + "c\n", routes: "eth0\t00000000\t0100F40A\t0003\n",
		routes6: strings.Repeat("0", 32) + " 00 " + strings.Repeat("0", 32) + " 00 fd001234567890abcdef123456789012 00000400 00000001 00000000 00000003 eth0\n", pods: "[" + host + "d]:8411",
	})
	if message := tell(s); len(message) > 4096 {
		t.Errorf("the message has %d bytes", len(message))
	}
}

func TestAddressesThatADeniedPodReaches(t *testing.T) {
	const patience = 500 * time.Millisecond
	leak, closed := Target{Kind: API, Protocol: "tcp", Address: listen(t)}, Target{Kind: Node, Protocol: "tcp", Address: nobody(t, "tcp")}
	for name, tc := range map[string]struct {
		address         string
		targets         []Target
		code            int
		reached, silent []Target
	}{
		"nothing":                      {nobody(t, "tcp"), []Target{closed}, 0, nil, []Target{closed}},
		"another pod":                  {listen(t), []Target{leak, closed}, Unmet, nil, nil},
		"a target, but no pod":         {nobody(t, "tcp"), []Target{closed, leak}, Leak, []Target{leak}, nil},
		"nothing, and tries only that": {nobody(t, "tcp"), nil, 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, message := denied(tc.address, tc.targets, patience)
			seen, told := ReadSeen(message)
			if code != tc.code || told != (code != Unmet) || !slices.Equal(seen.Reached, tc.reached) || !slices.Equal(seen.Silent, tc.silent) {
				t.Errorf("code %d, message %s", code, message)
			}
		})
	}
	open := look([]Target{leak, closed}, 0)
	if !slices.Equal(open.Reached, []Target{leak}) || !slices.Equal(open.Silent, []Target{closed}) || len(open.Slow)+len(open.Mute) > 0 {
		t.Errorf("a pod without restrictions: %+v", open)
	}
}

// That a name server is slow, or loses questions, does not make it one that is not reached.
func TestSlowNameServers(t *testing.T) {
	t.Parallel()
	answer := func(question []byte) []byte {
		question[2] |= 0x80
		return question
	}
	server := func(answer func([]byte) []byte) Target {
		return Target{Kind: NameServer, Protocol: "udp", Address: nameServer(t, answer)}
	}
	var asked atomic.Int32
	lossy := server(func(q []byte) []byte {
		if asked.Add(1) == 1 {
			return nil
		}
		return answer(q)
	})
	if err := lossy.reach(); err != nil {
		t.Errorf("a name server that loses the first question: %v", err)
	}
	slow := server(func(q []byte) []byte { time.Sleep(prompt + prompt/10); return answer(q) })
	mute := server(func([]byte) []byte { return nil })
	gone := Target{Kind: NameServer, Protocol: "udp", Address: nobody(t, "udp")}
	for name, tc := range map[string]struct {
		target     Target
		slow, mute bool
	}{"slow": {slow, true, false}, "mute": {mute, false, true}, "gone": {gone, false, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := look([]Target{tc.target}, 0)
			if slices.Contains(seen.Slow, tc.target) != tc.slow || slices.Contains(seen.Reached, tc.target) != tc.slow || slices.Contains(seen.Mute, tc.target) != tc.mute {
				t.Errorf("a pod without restrictions: %+v", seen)
			}
		})
	}
	if seen := shut([]Target{slow}, time.Second); len(seen.Silent) > 0 {
		t.Error("a restricted pod that reaches a slow name server took it for silent")
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
		row     int
		wanted  bool
		want    bool
	}{
		{"yynn", 2, false, false}, // the policy comes later
		{"nynn", 2, false, false},
		{"nnynnn", 3, false, false},
		{"nny", 2, true, true}, // the server does
	} {
		if reached, err := settle(attempts(tc.answers), time.Hour, tc.row, tc.wanted); reached != tc.want {
			t.Errorf("%s: reached %t, %v", tc.answers, reached, err)
		}
	}
	if reached, _ := settle(attempts("y"), 0, 2, false); !reached {
		t.Error("what is reached until the end is reached")
	}
	if reached, err := settle(attempts("n"), 0, 2, true); reached || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("what is not reached until the end: %t, %v", reached, err)
	}
}
