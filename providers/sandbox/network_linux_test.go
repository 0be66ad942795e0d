package sandbox

import (
	"bytes"
	"fmt"
	"net"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/environment/environmenttest"
)

// ways are how an environment comes to have no network but its own.
var ways = []struct {
	name string
	path []environment.Network
}{
	{"none from the beginning", []environment.Network{{Mode: environment.NetworkNone}}},
	{"none after public", []environment.Network{{}, {Mode: environment.NetworkNone}}},
	{"an allowlist", []environment.Network{{Mode: environment.NetworkAllowlist, Hosts: []string{"192.0.2.1"}}}},
	{"an allowlist after public", []environment.Network{{}, {Mode: environment.NetworkAllowlist, Hosts: []string{"192.0.2.1"}}}},
	{"public again", []environment.Network{{Mode: environment.NetworkNone}, {}}}, // by the door only
}

// led makes an environment and takes it through the networks.
func led(t *testing.T, p *Provider, path []environment.Network) environment.Environment {
	t.Helper()
	e := create(t, p, environment.CreateOptions{Image: testImage, Network: path[0]})
	for _, n := range path[1:] {
		if err := e.SetNetwork(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// What is no HTTP request goes nowhere: datagrams, questions to name servers, addresses of IPv6, the machine's own sockets.
func TestNothingGoesPastTheDoor(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	plain := environmenttest.Listen(t, "127.0.0.1", 0)
	six, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("needs IPv6: %v", err)
	}
	defer six.Close()
	_, sixPort, _ := net.SplitHostPort(six.Addr().String())
	abstract, err := net.Listen("unix", "@rollout-network-test-"+sixPort)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	script := fmt.Sprintf(`
		echo hello > /dev/udp/127.0.0.1/%d
		(exec 3<>/dev/tcp/::1/%s) 2>/dev/null && echo IPv6
		perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); exit(connect(S, pack_sockaddr_un("\0rollout-network-test-%s")) ? 0 : 7)' && echo abstract
		ls /sys/class/net /proc/1/net/../net >/dev/null; tail -n +3 /proc/net/dev | sed 's/:.*//' | tr -d ' '; tail -n +3 /proc/1/net/dev | sed 's/:.*//' | tr -d ' '
		ls /sys/class/net`, plain.Port(), sixPort, sixPort)
	public := run(t, create(t, p, environment.CreateOptions{Image: testImage}), script)
	if heard := plain.Heard(t); len(heard) != 1 || !strings.Contains(public, "IPv6") {
		t.Fatalf("a public environment does not reach what others must not: %q heard, %q printed", heard, public)
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			got := run(t, led(t, p, way.path), script)
			if got != "lo\nlo\nlo\n" {
				t.Errorf("printed %q, want its own loopback device only", got)
			}
			if heard := plain.Heard(t); len(heard) > 0 {
				t.Errorf("the machine heard %q", heard)
			}
		})
	}
}

func TestNamesAreNotLookedUp(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	const server = "127.0.53.77"
	names := environmenttest.Listen(t, server, 53)
	script := `echo "nameserver ` + server + `" > /etc/resolv.conf; sed -i 's/^hosts:.*/hosts: files dns/' /etc/nsswitch.conf
		getent ahostsv4 reach.test | head -n 1 | cut -d' ' -f1`
	if got := run(t, create(t, p, environment.CreateOptions{Image: testImage}), script); got != net.IP(environmenttest.Answer[:]).String()+"\n" {
		t.Fatalf("a public environment finds %q", got)
	}
	names.Heard(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			if got := run(t, led(t, p, way.path), script); got != "" {
				t.Errorf("found %q", got)
			}
			if heard := names.Heard(t); len(heard) > 0 {
				t.Errorf("the name server heard %q", heard)
			}
		})
	}
}

// What the agent leaves on its loopback device is there for a verifier that has the network.
func TestServersStayInReachOfAPublicNetworkLater(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	address := environmenttest.Outside(t, "127.0.0.1")
	e := create(t, p, environment.CreateOptions{Image: testImage, Network: environment.Network{Mode: environment.NetworkNone}})
	run(t, e, `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:8077") or die; print "up\n"; close STDOUT;
		while ($c = $s->accept) { print $c "left\n"; close $c }' &`)
	if err := e.SetNetwork(t.Context(), environment.Network{}); err != nil {
		t.Fatal(err)
	}
	got := run(t, e, environmenttest.BashClient+"cat < /dev/tcp/127.0.0.1/8077; fetch "+address)
	if got != "left\nhello\n" {
		t.Errorf("got %q", got)
	}
}

// No goroutine of a door stays when its environment has gone.
func TestDoorsAreClosed(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	address := environmenttest.Outside(t, "127.0.0.1")
	e := create(t, p, environment.CreateOptions{Image: testImage, Network: environment.Network{Mode: environment.NetworkAllowlist, Hosts: []string{address}}})
	run(t, e, environmenttest.BashClient+"stream "+address+" >/tmp/stream & sleep 0.2")
	if !goroutines("internal/egress.") {
		t.Fatal("there is no door")
	}
	if err := e.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); goroutines("internal/egress."); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("goroutines of the door live on")
		}
	}
}

// goroutines tells whether one runs code with this in its name.
func goroutines(name string) bool {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
	return strings.Contains(all.String(), name)
}

func TestAnAllowlistAndNoNetworkContradictEachOther(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t), "network": "none"})
	_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage, Network: environment.Network{Mode: environment.NetworkAllowlist, Hosts: []string{"pypi.org"}}})
	if environment.KindOf(err) != environment.KindStart || !strings.Contains(err.Error(), "provider_config") {
		t.Errorf("got %v", err)
	}
	e := create(t, p, environment.CreateOptions{Image: testImage})
	if err := e.SetNetwork(t.Context(), environment.Network{}); err != nil {
		t.Fatal(err)
	}
	address := environmenttest.Outside(t, "127.0.0.1")
	if got := run(t, e, environmenttest.BashClient+"fetch "+address+" 2>/dev/null || echo none"); got != "none\n" {
		t.Errorf("with network: none in provider_config: %q", got)
	}
}
