package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/rtnl"
)

// Addresses of the two networks that TestHostNetwork connects: this machine's and the outside. The
// outside also has addresses that sandboxes may never reach.
var (
	hereAddrs    = addrs("203.0.113.1", "fd00::1")
	thereAddrs   = addrs("203.0.113.2", "fd00::2")
	refusedThere = addrs("169.254.7.7", "169.254.169.254", "100.100.100.200", "fd00:ec2::254")
)

func addrs(list ...string) []netip.Addr {
	out := make([]netip.Addr, len(list))
	for i, text := range list {
		out[i] = netip.MustParseAddr(text)
	}
	return out
}

// TestHostNetwork reruns itself in a network namespace, in place of this machine's network, and
// connects that with another one. Unlike in the other tests, the network is not simulated.
func TestHostNetwork(t *testing.T) {
	testenv.NeedRoot(t, "who makes networks and joins them")
	if os.Getenv(secret) == "" {
		again := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), secret+"=here")
		again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
		out, err := again.CombinedOutput()
		switch {
		case err != nil:
			t.Errorf("%v:\n%s", err, out)
		case bytes.Contains(out, []byte("--- SKIP")):
			testenv.Lacks(t, Name, string(out))
		}
		return
	}
	outside := joinOutside(t)
	here := listenOn(t, "here")
	for _, to := range append(thereAddrs, refusedThere...) { // or it would not be Rollout that refuses
		if got := fetch(to, outside); got != "outside" {
			t.Fatalf("this machine does not reach %s: %s", to, got)
		}
	}
	for _, to := range hereAddrs {
		if got := fetch(to, here); got != "here" {
			t.Fatalf("this machine does not reach itself at %s: %s", to, got)
		}
	}
	before := here.heard.Load() + outside.heard.Load()

	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	e := create(t, p, environment.CreateOptions{Image: testImage})
	for _, to := range thereAddrs {
		if got := run(t, e, reach(to, outside.port, 60)); got != "tcp outside\nudp outside\n" {
			t.Errorf("from %s came %q", to, got)
		}
	}
	if n := outside.heard.Swap(0) - before + here.heard.Load(); n != 2*int64(len(thereAddrs)) {
		t.Errorf("%d connections and datagrams arrived, want %d", n, 2*len(thereAddrs))
	}
	here.heard.Store(0)
	refused := append(append(addrs("127.0.0.1", "::1"), hereAddrs...), refusedThere...)
	for _, to := range refused {
		for _, port := range []int{here.port, outside.port} {
			if got := run(t, e, reach(to, port, 0.1)); strings.Contains(got, "outside") || strings.Contains(got, "here") {
				t.Errorf("a sandbox reaches %s: %q", to, got)
			}
		}
	}
	if n := here.heard.Load() + outside.heard.Load(); n != 0 {
		t.Errorf("%d connections and datagrams arrived where none may", n)
	}

	const groups = "/proc/sys/net/ipv4/ping_group_range"
	for _, c := range []struct{ groups, want string }{{"0 2147483647", "an answer\n"}, {"1 0", "No route to host\n"}} {
		must(t, os.WriteFile(groups, []byte(c.groups), 0))
		if got := run(t, e, pinging+thereAddrs[0].String()); got != c.want {
			t.Errorf("a ping where %s may send pings: %q, want %q", c.groups, got, c.want)
		}
	}
}

// joinOutside connects this network with another one, and starts servers there.
func joinOutside(t *testing.T) *listening {
	t.Helper()
	type result struct {
		at  *listening
		err error
	}
	done, stay := make(chan result), make(chan struct{})
	t.Cleanup(func() { close(stay) })
	go func() {
		runtime.LockOSThread() // for good: the thread stays in the other network
		at, err := makeOutside()
		done <- result{at, err}
		<-stay
	}()
	made := <-done
	if made.err != nil {
		testenv.Lacks(t, Name, made.err.Error())
	}
	must(t, errors.Join(deviceUp("lo", nil, nil), deviceUp("here", hereAddrs, thereAddrs)))
	return made.at
}

func makeOutside() (*listening, error) {
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(own)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	kernel, err := rtnl.Open()
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	if err := kernel.AddVeth("there", "here", own, initwire.Hardware); err != nil {
		return nil, err
	}
	// Package net looks for IPv6 once, at the first loopback device.
	if err := errors.Join(deviceUp("lo", nil, nil), deviceUp("there", append(thereAddrs, refusedThere...), hereAddrs)); err != nil {
		return nil, err
	}
	return newListening("outside")
}

// deviceUp configures a device of this thread's network namespace: its addresses and the default
// routes.
func deviceUp(name string, own, gateways []netip.Addr) error {
	kernel, err := rtnl.Open()
	if err != nil {
		return err
	}
	defer kernel.Close()
	index, err := rtnl.Index(name)
	if err != nil {
		return err
	}
	err = kernel.SetUp(index, 1500, false)
	for _, addr := range own {
		err = errors.Join(err, kernel.AddAddress(index, addr))
	}
	for _, addr := range gateways {
		err = errors.Join(err, kernel.AddDefault(index, addr))
	}
	return err
}

// listening is a server that sends its name to every connection and datagram.
type listening struct {
	port  int
	heard atomic.Int64
	close func()
}

func listenOn(t *testing.T, name string) *listening {
	t.Helper()
	l, err := newListening(name)
	must(t, err)
	t.Cleanup(l.close)
	return l
}

func newListening(name string) (*listening, error) {
	stream, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	l := &listening{port: stream.Addr().(*net.TCPAddr).Port}
	datagrams, err := net.ListenUDP("udp", &net.UDPAddr{Port: l.port})
	if err != nil {
		stream.Close()
		return nil, err
	}
	l.close = func() { stream.Close(); datagrams.Close() }
	go func() {
		for {
			c, err := stream.Accept()
			if err != nil {
				return
			}
			l.heard.Add(1)
			fmt.Fprintln(c, name)
			c.Close()
		}
	}()
	go func() {
		buf := make([]byte, 64)
		for {
			_, from, err := datagrams.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			l.heard.Add(1)
			_, _ = datagrams.WriteToUDPAddrPort([]byte(name+"\n"), from)
		}
	}()
	return l, nil
}

// fetch returns the response of a server to this process.
func fetch(addr netip.Addr, l *listening) string {
	c, err := net.Dial("tcp", netip.AddrPortFrom(addr, uint16(l.port)).String())
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	buf := make([]byte, 64)
	n, _ := c.Read(buf)
	return strings.TrimSpace(string(buf[:n]))
}

// reach returns a script that connects to a server over both protocols. It waits for wait seconds
// if no error reports that the server is unreachable.
func reach(addr netip.Addr, port int, wait float64) string {
	return fmt.Sprintf(`exec 2>/dev/null
		(read -t %[3]g -r word </dev/tcp/%[1]s/%[2]d && echo "tcp $word")
		(exec 3<>/dev/udp/%[1]s/%[2]d && echo ask >&3 && word=$(timeout %[3]g head -n 1 <&3) && echo "udp $word")
		true`, addr, port, wait)
}

// pinging sends an echo request, and prints the result.
const pinging = `perl -MSocket -e '
	socket(S, PF_INET, SOCK_DGRAM, 1) or die "socket: $!"; connect(S, pack_sockaddr_in(0, inet_aton($ARGV[0]))) or die "connect: $!";
	send(S, pack("CCnnn", 8, 0, 0, 0, 1), 0); alarm 60;
	print defined recv(S, $b, 99, 0) ? (ord($b) == 0 ? "an answer\n" : "something else\n") : "$!\n"' `
