package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// align is what headers and attributes are rounded up to. Source: <linux/netlink.h>.
const align = 4

var order = binary.NativeEndian

// attribute encodes one attribute of a message.
func attribute(kind uint16, value []byte) []byte {
	size := unix.SizeofNlAttr + len(value)
	out := make([]byte, (size+align-1)/align*align)
	order.PutUint16(out, uint16(size))
	order.PutUint16(out[2:], kind)
	copy(out[unix.SizeofNlAttr:], value)
	return out
}

func text(kind uint16, value string) []byte { return attribute(kind, append([]byte(value), 0)) }

func number(kind uint16, value uint32) []byte {
	return attribute(kind, order.AppendUint32(nil, value))
}

// nested encodes an attribute that contains attributes.
func nested(kind uint16, list ...[]byte) []byte {
	return attribute(kind|unix.NLA_F_NESTED, joined(list))
}

func joined(list [][]byte) []byte {
	var out []byte
	for _, b := range list {
		out = append(out, b...)
	}
	return out
}

// header encodes a fixed header of rtnetlink in the kernel's memory layout.
func header[T unix.IfInfomsg | unix.IfAddrmsg | unix.RtMsg](h T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))...) // #nosec G103 -- a struct of numbers
}

// Conn is a connection to the kernel about the network of the thread that made it. It must not be
// used concurrently.
type Conn struct {
	fd   int
	last uint32
}

// Open returns a connection about the calling thread's network.
func Open() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return &Conn{fd: fd}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// request sends a message and returns the body of its answer. The body is nil if the answer only
// acknowledges.
func (c *Conn) request(kind, flags uint16, parts ...[]byte) ([]byte, error) {
	c.last++
	body := joined(parts)
	message := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	order.PutUint32(message, uint32(unix.SizeofNlMsghdr+len(body)))
	order.PutUint16(message[4:], kind)
	order.PutUint16(message[6:], flags|unix.NLM_F_REQUEST)
	order.PutUint32(message[8:], c.last)
	if err := unix.Sendto(c.fd, append(message, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	answer := make([]byte, 16<<10)
	for {
		n, _, err := unix.Recvfrom(c.fd, answer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n < unix.SizeofNlMsghdr || order.Uint32(answer[8:]) != c.last {
			continue
		}
		size := int(order.Uint32(answer))
		if size < unix.SizeofNlMsghdr || size > n {
			return nil, errShort
		}
		got := answer[unix.SizeofNlMsghdr:size]
		if order.Uint16(answer[4:]) != unix.NLMSG_ERROR {
			return got, nil
		}
		if len(got) < 4 {
			return nil, errShort
		}
		if code := int32(order.Uint32(got)); code != 0 {
			return nil, unix.Errno(-code)
		}
		return nil, nil
	}
}

var errShort = errors.New("the kernel's answer is too short")

// Index returns the number of a device.
func Index(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request)
	}
	if err != nil {
		return 0, fmt.Errorf("find the device %s: %w", name, err)
	}
	return int(int32(request.Uint32())), nil
}

const ack = unix.NLM_F_ACK

// vethPeer is the attribute that describes the other end. Source: <linux/veth.h>.
const vethPeer = 1

// AddVeth makes a pair of devices: name in this network, and peer, with this hardware address, in
// the network that is open as peerNetwork.
func (c *Conn) AddVeth(name, peer string, peerNetwork int, peerAddress [6]byte) error {
	_, err := c.request(unix.RTM_NEWLINK, ack|unix.NLM_F_CREATE|unix.NLM_F_EXCL, header(unix.IfInfomsg{}), text(unix.IFLA_IFNAME, name),
		nested(unix.IFLA_LINKINFO, text(unix.IFLA_INFO_KIND, "veth"),
			nested(unix.IFLA_INFO_DATA, nested(vethPeer, header(unix.IfInfomsg{}), text(unix.IFLA_IFNAME, peer),
				attribute(unix.IFLA_ADDRESS, peerAddress[:]), number(unix.IFLA_NET_NS_FD, uint32(peerNetwork))))))
	return wrap("make a pair of virtual devices", err)
}

// noAddresses is IN6_ADDR_GEN_MODE_NONE. Source: <linux/if_link.h>.
const noAddresses = 1

// DisableAutoconf keeps the kernel from assigning IPv6 addresses to a device, which is not up yet,
// and from asking its neighbours for routers. It does nothing on kernels without IPv6.
func (c *Conn) DisableAutoconf(index int) error {
	_, err := c.request(unix.RTM_NEWLINK, ack, header(unix.IfInfomsg{Index: int32(index)}),
		nested(unix.IFLA_AF_SPEC, nested(unix.AF_INET6, attribute(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{noAddresses}))))
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	return wrap("keep a device quiet", err)
}

// SetUp switches a device on. noARP says that it has no neighbours to ask for hardware addresses.
func (c *Conn) SetUp(index, mtu int, noARP bool) error {
	flags := uint32(unix.IFF_UP)
	change := flags | unix.IFF_NOARP | unix.IFF_MULTICAST
	if noARP {
		flags |= unix.IFF_NOARP
	}
	_, err := c.request(unix.RTM_NEWLINK, ack, header(unix.IfInfomsg{Index: int32(index), Flags: flags, Change: change}),
		number(unix.IFLA_MTU, uint32(mtu)))
	return wrap("switch a device on", err)
}

// Delete removes a device.
func (c *Conn) Delete(index int) error {
	_, err := c.request(unix.RTM_DELLINK, ack, header(unix.IfInfomsg{Index: int32(index)}))
	return wrap("remove a device", err)
}

func family(addr netip.Addr) uint8 {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// AddAddress adds an address to a device, without a route to others.
func (c *Conn) AddAddress(index int, addr netip.Addr) error {
	raw := addr.AsSlice()
	_, err := c.request(unix.RTM_NEWADDR, ack|unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		header(unix.IfAddrmsg{Family: family(addr), Prefixlen: uint8(addr.BitLen()), Flags: unix.IFA_F_NODAD, Index: uint32(index)}),
		attribute(unix.IFA_LOCAL, raw), attribute(unix.IFA_ADDRESS, raw))
	return wrap("give a device the address "+addr.String(), err)
}

// AddDefault adds the default route by gateway. The gateway need not be in a network of the device.
func (c *Conn) AddDefault(index int, gateway netip.Addr) error {
	_, err := c.request(unix.RTM_NEWROUTE, ack|unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		header(unix.RtMsg{
			Family: family(gateway), Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_STATIC, Scope: unix.RT_SCOPE_UNIVERSE,
			Type: unix.RTN_UNICAST, Flags: unix.RTNH_F_ONLINK,
		}),
		attribute(unix.RTA_GATEWAY, gateway.AsSlice()), number(unix.RTA_OIF, uint32(index)))
	return wrap("make the default route by "+gateway.String(), err)
}

// LeavesMachine reports whether packets to an address leave this machine, by its routing table:
// addr is not one of the machine's own, and no broadcast. Without a route it returns the error of
// sending.
func (c *Conn) LeavesMachine(addr netip.Addr) (bool, error) {
	addr = addr.Unmap()
	answer, err := c.request(unix.RTM_GETROUTE, 0, header(unix.RtMsg{Family: family(addr), Dst_len: uint8(addr.BitLen())}),
		attribute(unix.RTA_DST, addr.AsSlice()))
	if err != nil {
		return false, err
	}
	const typeAt = 7 // in struct rtmsg
	if len(answer) < unix.SizeofRtMsg {
		return false, errShort
	}
	return answer[typeAt] == unix.RTN_UNICAST, nil
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
