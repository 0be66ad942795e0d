//go:build linux

package initproc

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/rtnl"
)

// network serves a request about the sandbox's network.
func (s *server) network(request initwire.Request) {
	answer := initwire.Answer{ID: request.ID}
	var files []*os.File
	var err error
	switch request.Op {
	case initwire.Attach:
		var end *os.File
		if end, answer.Frames, err = s.attach(*request.Device); err == nil {
			files = append(files, end)
		}
	case initwire.Detach:
		err = detach(request.Device.Name)
	default:
		var socket *os.File
		if socket, err = listen(); err == nil {
			files = append(files, socket)
		}
	}
	if err != nil {
		answer.Kind, answer.Problem = kindOf(err), err.Error()
		if refused := new(refusal); errors.As(err, &refused) {
			answer.Kind = initwire.Refused
		}
	}
	err = s.conn.Send(answer, files...)
	closeFiles(files)
	if err != nil {
		os.Exit(1)
	}
}

// tunDevice is the file through which TUN devices are made. Source: the kernel's
// Documentation/networking/tuntap.rst.
const tunDevice = "/dev/net/tun"

// findTUN keeps tunDevice open for later, when the machine's files are out of reach. s.tun is -1 if
// the machine does not have it.
func (s *server) findTUN() {
	s.tun = -1
	if fd, err := unix.Open(tunDevice, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		s.tun = fd
	}
}

// attach makes a device with its addresses and routes, and returns its other end.
func (s *server) attach(d initwire.Device) (*os.File, initwire.Frames, error) {
	var failures []error
	for _, way := range []struct {
		frames initwire.Frames
		make   func(name string) (*os.File, error)
	}{{initwire.Ethernet, makeVeth}, {initwire.Packets, s.makeTUN}} { // the kernel removes TUN devices slowly, which delays others
		if d.Frames != "" && d.Frames != way.frames {
			continue
		}
		end, err := way.make(d.Name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if err := configure(d); err != nil {
			end.Close()
			return nil, "", err
		}
		return end, way.frames, nil
	}
	return nil, "", refused("make a network device", errors.Join(failures...))
}

// makeTUN makes a device whose other end is a file of packets. Large segments are not cut and
// checksums not computed: the packets stay within this machine.
func (s *server) makeTUN(name string) (*os.File, error) {
	if s.tun < 0 {
		return nil, fmt.Errorf("open %s: %w", tunDevice, os.ErrNotExist)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", s.tun), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tunDevice, err)
	}
	end := os.NewFile(uintptr(fd), tunDevice)
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6)
	}
	if err != nil {
		end.Close()
		return nil, fmt.Errorf("make a TUN device: %w", err)
	}
	return end, nil
}

// farDevice is the name of the pair's other device, in a network that has nothing else.
const farDevice = "far"

// makeVeth makes one end of a pair of devices. The other end is in a network that exists only for a
// packet socket, and ends with it. No process is in that network, and none can enter it.
func makeVeth(name string) (*os.File, error) {
	type made struct {
		end *os.File
		err error
	}
	result := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is in another network, and ends with this function
		end, err := makeFarEnd(name)
		result <- made{end, err}
	}()
	m := <-result
	return m.end, m.err
}

func makeFarEnd(name string) (*os.File, error) {
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("find the sandbox's own network: %w", err)
	}
	defer unix.Close(own)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	kernel, err := rtnl.Open()
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	if err := kernel.AddVeth(farDevice, name, own, initwire.Hardware); err != nil {
		return nil, err
	}
	far, err := rtnl.Index(farDevice)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(kernel.DisableAutoconf(far), kernel.SetUp(far, initwire.MaxMTU, true)); err != nil {
		return nil, err
	}
	return packetSocket(far)
}

// packetSocket opens a socket that sends and receives a device's packets in this thread's network.
// It does not receive packets sent through it.
func packetSocket(device int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // 0: nothing before Bind
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	end := os.NewFile(uintptr(fd), "packets")
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	// A buffer as large as this user may have.
	const buffer = 8 << 20
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device}),
	)
	if err != nil {
		end.Close()
		return nil, fmt.Errorf("set up a packet socket: %w", err)
	}
	return end, nil
}

// configure sets a device's addresses and the default routes through it.
func configure(d initwire.Device) error {
	kernel, err := rtnl.Open()
	if err != nil {
		return err
	}
	defer kernel.Close()
	index, err := rtnl.Index(d.Name)
	if err != nil {
		return err
	}
	if err := errors.Join(kernel.DisableAutoconf(index), kernel.SetUp(index, d.MTU, true)); err != nil {
		return err
	}
	for _, addr := range d.Addrs {
		if err := addAddress(kernel, index, addr); err != nil {
			return err
		}
	}
	return nil
}

// addAddress sets a device's address, and the default route of the address's family. It does
// nothing for IPv6 if the kernel does not have it.
func addAddress(kernel *rtnl.Conn, index int, a initwire.Address) error {
	err := kernel.AddAddress(index, a.Own)
	if err == nil {
		err = kernel.AddDefault(index, a.Gateway)
	}
	if err != nil && isIPv6(a.Own) && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
		return nil
	}
	return err
}

func isIPv6(addr netip.Addr) bool { return addr.Is6() && !addr.Is4In6() }

// detach removes a device. It returns nil if the device does not exist any more.
func detach(name string) error {
	kernel, err := rtnl.Open()
	if err != nil {
		return err
	}
	defer kernel.Close()
	index, err := rtnl.Index(name)
	if err == nil {
		err = kernel.Delete(index)
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// setNetworkDefaults makes the same settings as for containers: every user may listen on any port
// and send pings. It ignores errors.
func setNetworkDefaults() {
	for name, value := range map[string]string{
		"ip_unprivileged_port_start": "0",
		"ping_group_range":           "0 2147483647",
	} {
		_ = os.WriteFile("proc/sys/net/ipv4/"+name, []byte(value), 0)
	}
}

// listen opens a socket on the loopback device, at a free port.
func listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	file := os.NewFile(uintptr(fd), "proxy")
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return file, nil
}
