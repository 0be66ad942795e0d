package usernet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/org/rollout-action/providers/internal/initwire"
)

const (
	headerSize   = 10 // struct virtio_net_hdr, <linux/virtio_net.h>, in this machine's byte order
	ethernetSize = header.EthernetMinimumSize
	maxPacket    = 65535
	// gsoSize is the largest segment written at once, for the kernel to split.
	gsoSize = 65535
)

// Fields of a frame's header. Source: <linux/virtio_net.h>.
const (
	needsChecksum = 1
	segmentsTCP4  = 1
	segmentsTCP6  = 4
	segmentsUDP   = 5
	segmentsECN   = 0x80 // a flag in addition to one of the above
)

var order = binary.NativeEndian

// link is the outer end of the device, as the stack uses it.
type link struct {
	file     *os.File
	raw      syscall.RawConn
	ethernet bool
	mtu      uint32

	mu         sync.RWMutex
	dispatcher stack.NetworkDispatcher
	closing    sync.Once
}

var (
	_ stack.LinkEndpoint = (*link)(nil)
	_ stack.GSOEndpoint  = (*link)(nil)
)

func newLink(end *os.File, opts Options) (*link, error) {
	defer end.Close()
	// A separate descriptor in non-blocking mode: sending a file over a socket sets it to blocking
	// mode.
	fd, err := unix.FcntlInt(end.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		if err = unix.SetNonblock(fd, true); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take over a network device: %w", err)
	}
	l := &link{file: os.NewFile(uintptr(fd), "network"), ethernet: opts.Frames == initwire.Ethernet, mtu: uint32(opts.Device.MTU)}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// packet is an IP packet.
type packet struct {
	data    []byte // nil: not an IP packet
	segment int    // if not 0, the size of each datagram in it
}

func (p packet) isIPv4() bool { return p.data[0]>>4 == 4 }

// addresses returns a packet's source and destination.
func (p packet) addresses() (from, to netip.Addr) {
	if p.isIPv4() {
		return netip.AddrFrom4([4]byte(p.data[12:16])), netip.AddrFrom4([4]byte(p.data[16:20]))
	}
	return netip.AddrFrom16([16]byte(p.data[8:24])), netip.AddrFrom16([16]byte(p.data[24:40]))
}

// read waits for a frame. The packet of a frame that is not IP has no data. The packet is valid
// until the next call.
func (l *link) read(buf []byte) (packet, error) {
	for {
		n, err := l.file.Read(buf)
		if err == nil {
			return l.parse(buf[:n]), nil
		}
		// The device may be down, or about to disappear with the sandbox.
		if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EIO) || errors.Is(err, unix.EBADFD) || errors.Is(err, unix.ENOBUFS) {
			if errors.Is(err, unix.EBADFD) {
				return packet{}, err
			}
			time.Sleep(time.Millisecond)
			continue
		}
		return packet{}, err
	}
}

func (l *link) parse(frame []byte) packet {
	if len(frame) < headerSize {
		return packet{}
	}
	head, data := frame[:headerSize], frame[headerSize:]
	if l.ethernet {
		if len(data) < ethernetSize {
			return packet{}
		}
		data = data[ethernetSize:]
	}
	p := packet{data: data}
	if len(data) < header.IPv4MinimumSize || !p.isIPv4() && (data[0]>>4 != 6 || len(data) < header.IPv6MinimumSize) {
		return packet{}
	}
	if head[1]&^segmentsECN == segmentsUDP {
		p.segment = int(order.Uint16(head[4:]))
	}
	return p
}

// deliver passes a packet to the stack.
func (l *link) deliver(p packet) {
	l.mu.RLock()
	d := l.dispatcher
	l.mu.RUnlock()
	if d == nil {
		return
	}
	protocol := tcpip.NetworkProtocolNumber(header.IPv6ProtocolNumber)
	if p.isIPv4() {
		protocol = header.IPv4ProtocolNumber
	}
	for _, data := range p.datagrams() {
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(data)})
		d.DeliverNetworkPacket(protocol, pkt)
		pkt.DecRef()
	}
}

// datagrams returns the datagrams of a packet, in most cases the packet itself. The stack does not
// check their checksums.
func (p packet) datagrams() [][]byte {
	at := header.IPv6MinimumSize
	if p.isIPv4() {
		at = int(p.data[0]&0x0f) * 4
	}
	payload := at + header.UDPMinimumSize
	if p.segment == 0 || len(p.data)-payload <= p.segment {
		return [][]byte{p.data}
	}
	var list [][]byte
	for rest := p.data[payload:]; len(rest) > 0; {
		part := rest[:min(p.segment, len(rest))]
		rest = rest[len(part):]
		one := append(append(make([]byte, 0, payload+len(part)), p.data[:payload]...), part...)
		binary.BigEndian.PutUint16(one[at+4:], uint16(header.UDPMinimumSize+len(part)))
		if p.isIPv4() {
			binary.BigEndian.PutUint16(one[2:], uint16(len(one)))
		} else {
			binary.BigEndian.PutUint16(one[4:], uint16(len(one)-at))
		}
		list = append(list, one)
	}
	return list
}

// WritePackets implements stack.LinkWriter.
func (l *link) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	for i, pkt := range list.AsSlice() {
		var head [headerSize]byte
		if gso := pkt.GSOOptions; gso.Type != stack.GSONone {
			start := gso.L3HdrLen
			if l.ethernet {
				start += ethernetSize
			}
			if gso.NeedsCsum {
				head[0] = needsChecksum
				order.PutUint16(head[6:], start)
				order.PutUint16(head[8:], gso.CsumOffset)
			}
			if pkt.Data().Size() > int(gso.MSS) {
				head[1] = segmentsTCP6
				if gso.Type == stack.GSOTCPv4 {
					head[1] = segmentsTCP4
				}
				size := uint16(pkt.HeaderSize())
				if l.ethernet {
					size += ethernetSize
				}
				order.PutUint16(head[2:], size)
				order.PutUint16(head[4:], gso.MSS)
			}
		}
		if l.write(head, pkt.NetworkProtocolNumber, pkt.AsSlices()) != nil {
			if i == 0 {
				return 0, &tcpip.ErrClosedForSend{}
			}
			return i, nil
		}
	}
	return list.Len(), nil
}

// send writes a complete packet.
func (l *link) send(data []byte) {
	protocol := tcpip.NetworkProtocolNumber(header.IPv6ProtocolNumber)
	if data[0]>>4 == 4 {
		protocol = header.IPv4ProtocolNumber
	}
	_ = l.write([headerSize]byte{}, protocol, [][]byte{data}) // packets may be lost
}

// write writes a frame. It waits for buffer space, unless the device is closed.
func (l *link) write(head [headerSize]byte, protocol tcpip.NetworkProtocolNumber, parts [][]byte) error {
	list := make([][]byte, 0, 8)
	list = append(list, head[:])
	if l.ethernet {
		var eth [ethernetSize]byte
		copy(eth[:], initwire.Hardware[:])
		copy(eth[6:], initwire.Hardware[:])
		eth[11]++ // the address of this end
		binary.BigEndian.PutUint16(eth[12:], uint16(protocol))
		list = append(list, eth[:])
	}
	list = append(list, parts...)
	var writing error
	err := l.raw.Write(func(fd uintptr) bool {
		_, writing = unix.Writev(int(fd), list)
		return !errors.Is(writing, unix.EAGAIN)
	})
	if err != nil {
		return err
	}
	if errors.Is(writing, unix.EBADFD) {
		return writing
	}
	return nil // the device dropped the frame, as any network may
}

// stop makes read return.
func (l *link) stop() { _ = l.file.SetReadDeadline(time.Unix(1, 0)) }

// close ends the device. It does not wait for the kernel, which takes tens of milliseconds.
func (l *link) close() {
	l.stop()
	l.closing.Do(func() { go l.file.Close() })
}

// MTU implements stack.LinkEndpoint.
func (l *link) MTU() uint32 { return l.mtu }

// SetMTU implements stack.LinkEndpoint.
func (l *link) SetMTU(uint32) {}

// MaxHeaderLength implements stack.LinkEndpoint. write adds the link headers.
func (l *link) MaxHeaderLength() uint16 { return 0 }

// LinkAddress implements stack.LinkEndpoint.
func (l *link) LinkAddress() tcpip.LinkAddress { return "" }

// SetLinkAddress implements stack.LinkEndpoint.
func (l *link) SetLinkAddress(tcpip.LinkAddress) {}

// Capabilities implements stack.LinkEndpoint. Packets from the sandbox's kernel are intact, so
// their checksums need no check.
func (l *link) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}

// SupportedGSO implements stack.GSOEndpoint.
func (l *link) SupportedGSO() stack.SupportedGSO { return stack.HostGSOSupported }

// GSOMaxSize implements stack.GSOEndpoint.
func (l *link) GSOMaxSize() uint32 { return gsoSize }

// Attach implements stack.LinkEndpoint.
func (l *link) Attach(d stack.NetworkDispatcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatcher = d
}

// IsAttached implements stack.LinkEndpoint.
func (l *link) IsAttached() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.dispatcher != nil
}

// Wait implements stack.LinkEndpoint.
func (l *link) Wait() {}

// ARPHardwareType implements stack.LinkEndpoint.
func (l *link) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }

// AddHeader implements stack.LinkEndpoint.
func (l *link) AddHeader(*stack.PacketBuffer) {}

// ParseHeader implements stack.LinkEndpoint.
func (l *link) ParseHeader(*stack.PacketBuffer) bool { return true }

// Close implements stack.LinkEndpoint.
func (l *link) Close() {}

// SetOnCloseAction implements stack.LinkEndpoint.
func (l *link) SetOnCloseAction(func()) {}
