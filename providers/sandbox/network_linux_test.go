package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// ways are the ways to give an environment no network but its loopback device.
var ways = []struct {
	name string
	path []environment.Network
}{
	{"none from the beginning", []environment.Network{{Mode: environment.NetworkNone}}},
	{"none after public", []environment.Network{{}, {Mode: environment.NetworkNone}}},
	{"none, public, none", []environment.Network{{Mode: environment.NetworkNone}, {}, {Mode: environment.NetworkNone}}},
	{"an allowlist", []environment.Network{{Mode: environment.NetworkAllowlist, Hosts: []string{"192.0.2.1"}}}},
	{"an allowlist after public", []environment.Network{{}, {Mode: environment.NetworkAllowlist, Hosts: []string{"192.0.2.1"}}}},
}

// kinds are the kinds of network device of a sandbox.
var kinds = []initwire.Frames{initwire.Packets, initwire.Ethernet}

// ofKind returns a provider whose sandboxes have this kind of device and reach these hosts. It
// skips the test if this user may have only devices of another kind.
func ofKind(t *testing.T, kind initwire.Frames, hosts *environmenttest.Hosts) *Provider {
	t.Helper()
	if kind == initwire.Packets {
		f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
		if err != nil {
			t.Skipf("this user may not have TUN devices: %v", err)
		}
		f.Close()
	}
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	p.frames, p.opts.Dial, p.opts.NameServers = kind, hosts.Dial, hosts.NameServers(t)
	return p
}

func inKinds(t *testing.T, test func(t *testing.T, p *Provider, hosts *environmenttest.Hosts)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			hosts := &environmenttest.Hosts{}
			test(t, ofKind(t, kind, hosts), hosts)
		})
	}
}

// led makes an environment and sets the networks of path in order.
func led(t *testing.T, p *Provider, path []environment.Network) environment.Environment {
	t.Helper()
	e := create(t, p, environment.CreateOptions{Image: testImage, Network: path[0]})
	for _, n := range path[1:] {
		if err := environment.SetNetwork(t.Context(), e, n); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// With an allowlist, all traffic but HTTP is blocked: datagrams, DNS questions, pings, IPv6.
func TestAllowlistPassesOnlyHTTP(t *testing.T) {
	inKinds(t, func(t *testing.T, p *Provider, hosts *environmenttest.Hosts) {
		plain := environmenttest.Listen(t, "127.0.0.1", 0)
		at := netip.AddrPortFrom(hosts.New(), 7)
		hosts.Lead("udp", at, plain.Addr().String())
		script := fmt.Sprintf(`echo hello > /dev/udp/%s/7
			getent ahostsv4 198-51-100-1.hosts.test | head -n 1 | cut -d' ' -f1
			ls /sys/class/net | xargs
			tail -n +3 /proc/net/dev | sed 's/:.*//' | tr -d ' ' | sort | xargs`, at.Addr())
		public := run(t, create(t, p, environment.CreateOptions{Image: testImage}), script)
		if public != "198.51.100.1\neth0 lo\neth0 lo\n" {
			t.Errorf("a public environment prints %q", public)
		}
		plain.Await(t, "hello\n")
		for _, way := range ways {
			t.Run(way.name, func(t *testing.T) {
				got := run(t, led(t, p, way.path), "exec 2>/dev/null\n"+script)
				if got != "lo\nlo\n" {
					t.Errorf("printed %q, want its own loopback device only", got)
				}
				if heard := plain.Heard(t); len(heard) > 0 {
					t.Errorf("somebody heard %q", heard)
				}
			})
		}
	})
}

// A network that becomes public again has DNS and no proxy.
func TestNetworkBecomesPublicAgain(t *testing.T) {
	inKinds(t, func(t *testing.T, p *Provider, hosts *environmenttest.Hosts) {
		e := led(t, p, []environment.Network{{Mode: environment.NetworkNone}, {}, {Mode: environment.NetworkAllowlist}, {}})
		if got := run(t, e, environmenttest.BashClient+"direct "+hosts.OutsideByName(t)+"; echo $http_proxy"); got != "hello\n\n" {
			t.Errorf("got %q", got)
		}
	})
}

// A server that the agent leaves on its loopback device is reachable for a verifier with the
// network.
func TestServersOutliveANetworkChange(t *testing.T) {
	hosts := &environmenttest.Hosts{}
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	p.opts.Dial = hosts.Dial
	address := hosts.Outside(t)
	e := create(t, p, environment.CreateOptions{Image: testImage, Network: environment.Network{Mode: environment.NetworkNone}})
	run(t, e, `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:8077") or die; print "up\n"; close STDOUT;
		while ($c = $s->accept) { print $c "left\n"; close $c }' &`)
	if err := environment.SetNetwork(t.Context(), e, environment.Network{}); err != nil {
		t.Fatal(err)
	}
	got := run(t, e, environmenttest.BashClient+"cat < /dev/tcp/127.0.0.1/8077; fetch "+address)
	if got != "left\nhello\n" {
		t.Errorf("got %q", got)
	}
}

// ownAddresses returns the addresses of this machine that mean the machine in a sandbox, too.
func ownAddresses(t *testing.T) (own []string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip := a.(*net.IPNet).IP; !ip.IsLoopback() && !ip.IsLinkLocalUnicast() { // inside, those are the sandbox and nothing
			own = append(own, ip.String())
		}
	}
	return own
}

// None of this machine's addresses is reachable, by the kernel or by root with crafted packets.
func TestMachinesOwnAddressesAreUnreachable(t *testing.T) {
	// No kernel sends packets for loopback addresses by itself.
	const crafted = `perl -MSocket -e '
		socket(S, 17, 3, 0) or die "socket: $!";
		sub word { open(F, "/sys/class/net/eth0/$_[0]") or die "$_[0]: $!"; <F> + 0 }
		$to = pack("SnlSCCa8", 17, 0x800, word("ifindex"), 0, 0, 6, pack("H*", "020000000003"));
		$head = word("type") == 1 ? pack("H*", "0200000000030200000000020800") : ""; # Ethernet
		for $d (@ARGV) {
			for (["", 17, pack("nnnn", 4000, 4077, 12, 0) . "evil"], ["", 6, pack("nnNNCCnnn", 4001, 4077, 1, 0, 0x50, 2, 1000, 0, 0)], ["", 1, pack("CCnnn", 8, 0, 0, 7, 1)]) {
				$ip = pack("CCnnnCCna4a4", 0x45, 0, 20 + length $$_[2], 1, 0, 64, $$_[1], 0, inet_aton("192.0.0.2"), inet_aton($d));
				$sum = 0; $sum += $_ for unpack("n*", $ip); $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
				substr($ip, 10, 2) = pack("n", ~$sum & 0xffff);
				send(S, $head . $ip . $$_[2], 0, $to) or die "send: $!";
			}
		}
		print "sent\n"' 127.0.0.1 127.9.9.9 169.254.169.254 0.0.0.0 255.255.255.255 224.0.0.1 192.0.0.1 198.51.100.77`
	inKinds(t, func(t *testing.T, p *Provider, hosts *environmenttest.Hosts) {
		var mu sync.Mutex
		var asked []string
		p.opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, network+" "+address)
			return hosts.Dial(ctx, network, address)
		}
		e := create(t, p, environment.CreateOptions{Image: testImage})
		var tries strings.Builder
		tried := ownAddresses(t)
		for _, ip := range tried {
			fmt.Fprintf(&tries, "echo %s $( (echo x > /dev/tcp/%s/4077) 2>&1 | grep -o 'No route to host' | tail -n 1); echo x > /dev/udp/%s/4077\n", ip, ip, ip)
		}
		got := run(t, e, "exec 2>/dev/null\n"+tries.String()+"true")
		still := ownAddresses(t)
		var left []string // as those of other tests' containers, which come and go
		for _, ip := range tried {
			switch {
			case !slices.Contains(still, ip):
				left = append(left, ip)
			case !strings.Contains(got, ip+" No route to host\n"):
				t.Errorf("%s is reachable: %q", ip, got)
			}
		}
		if got := run(t, e, crafted); got != "sent\n" {
			t.Fatalf("root could not send packets: %q", got)
		}
		address := hosts.Outside(t)
		if got := run(t, e, environmenttest.BashClient+"direct "+address); got != "hello\n" { // decided by now
			t.Errorf("afterwards: %q", got)
		}
		mu.Lock()
		defer mu.Unlock()
		for end := time.Now().Add(time.Minute); len(asked) < 4 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
		}
		asked = slices.DeleteFunc(asked, func(a string) bool {
			return slices.ContainsFunc(left, func(ip string) bool { return strings.HasSuffix(a, " "+net.JoinHostPort(ip, "4077")) })
		})
		slices.Sort(asked)
		want := []string{"ping4 198.51.100.77", "tcp 198.51.100.77:4077", "tcp " + address, "udp 198.51.100.77:4077"} // elsewhere
		slices.Sort(want)
		if !slices.Equal(asked, want) {
			t.Errorf("there were connections to %q, want %q", asked, want)
		}
	})
}

// A socket that receives all packets sees only its own sandbox's.
func TestPacketsOfOtherSandboxesAreNotSeen(t *testing.T) {
	inKinds(t, func(t *testing.T, p *Provider, hosts *environmenttest.Hosts) {
		spy, talker := create(t, p, environment.CreateOptions{Image: testImage}), create(t, p, environment.CreateOptions{Image: testImage})
		run(t, spy, `perl -e 'socket(S, 17, 3, 0x0300) or die "socket: $!"; open(O, ">", "/seen"); print "up\n"; close STDOUT; while (recv(S, $b, 65535, 0), length $b) { syswrite O, $b }' & until [ -e /seen ]; do sleep 0.01; done`)
		address := hosts.Outside(t)
		run(t, talker, environmenttest.BashClient+`direct `+address+`; serve 8099; direct 127.0.0.1:8099`)
		c, err := net.Dial("tcp", hosts.Real(t, address))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "GET / HTTP/1.0\r\nHost: secret\r\n\r\n") // over the machine's own loopback
		_, _ = io.ReadAll(c)
		c.Close()
		if got := run(t, spy, "grep -c hello /seen || true"); got != "0\n" {
			t.Errorf("%s packets of others were seen", strings.TrimSpace(got))
		}
		run(t, spy, environmenttest.BashClient+"direct "+address)
		if got := run(t, spy, "for i in {1..1000}; do ! grep -q hello /seen || break; sleep 0.01; done; grep -c hello /seen || true"); got == "0\n" {
			t.Error("the spy sees nothing at all, not even its own")
		}
	})
}

// No goroutine and no file of a network remains after its environment is removed.
func TestNetworksAreClosed(t *testing.T) {
	inKinds(t, func(t *testing.T, p *Provider, hosts *environmenttest.Hosts) {
		address := hosts.Outside(t)
		before := len(open(t))
		for _, n := range []environment.Network{{}, {Mode: environment.NetworkAllowlist, Hosts: []string{address}}} {
			e := create(t, p, environment.CreateOptions{Image: testImage, Network: n})
			run(t, e, environmenttest.BashClient+"stream "+address+" >/tmp/stream & while [ ! -s /tmp/stream ]; do sleep 0.01; done")
			if n.Public() {
				run(t, e, "for i in $(seq 20); do echo x > /dev/udp/198.51.100.9/$i; done 2>/dev/null; getent hosts x.hosts.test; true")
			}
			if !goroutines("internal/lib/egress.") && !goroutines("internal/usernet.") {
				t.Fatal("there is no network")
			}
			if err := e.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		left := func() bool {
			return goroutines("internal/lib/egress.") || goroutines("internal/usernet.") || goroutines("gvisor.dev") || len(open(t)) > before
		}
		for end := time.Now().Add(time.Minute); left(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				var all bytes.Buffer
				_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
				t.Fatalf("goroutines or files live on: %d files were open, now %v\n%s", before, open(t), &all)
			}
		}
	})
}

// open returns the devices and sockets that this process has open.
func open(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, entry := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && (strings.HasPrefix(to, "socket:") || strings.Contains(to, "net/tun")) {
			list = append(list, to)
		}
	}
	return list
}

// goroutines reports whether a goroutine runs code whose name contains name.
func goroutines(name string) bool {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
	return strings.Contains(all.String(), name)
}

func TestNetworksThatContradictTheConfiguration(t *testing.T) {
	allowed := environment.Network{Mode: environment.NetworkAllowlist, Hosts: []string{"pypi.org"}}
	for own, wanted := range map[string][]environment.Network{
		networkNone: {allowed},
		networkHost: {allowed, {Mode: environment.NetworkNone}},
	} {
		p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t), "network": own})
		e := create(t, p, environment.CreateOptions{Image: testImage})
		for _, n := range wanted {
			_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage, Network: n})
			if environment.KindOf(err) != environment.KindStart || !strings.Contains(err.Error(), "provider_config") {
				t.Errorf("%s: made %s: %v", own, n, err)
			}
			if err := environment.SetNetwork(t.Context(), e, n); environment.KindOf(err) != environment.KindStart {
				t.Errorf("%s: set %s: %v", own, n, err)
			}
		}
		if err := environment.SetNetwork(t.Context(), e, environment.Network{}); err != nil {
			t.Errorf("%s: set public: %v", own, err)
		}
		address := environmenttest.Outside(t, "127.0.0.1")
		want := map[string]string{networkNone: "none\n", networkHost: "hello\n"}[own]
		if got := run(t, e, environmenttest.BashClient+"fetch "+address+" 2>/dev/null || echo none"); got != want {
			t.Errorf("with network: %s in provider_config: %q", own, got)
		}
	}
}
