package usernet

import (
	"testing"
)

func TestDatagramsOfOneSegment(t *testing.T) {
	payload := "aaaabbbbcc"
	four := append(append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17}, make([]byte, 10)...), "\x0f\xa0\x00\x35\x00\x00\x00\x00"+payload...)
	six := append(append([]byte{0x60, 0, 0, 0, 0, 0, 17, 64}, make([]byte, 32)...), "\x0f\xa0\x00\x35\x00\x00\x00\x00"+payload...)
	for name, c := range map[string]struct {
		data   []byte
		length int // where the packet's length is
		head   int // bytes not counted in the length
	}{"IPv4": {four, 2, 0}, "IPv6": {six, 4, 40}} {
		list := packet{data: c.data, segment: 4}.datagrams()
		if len(list) != 3 {
			t.Fatalf("%s: %d datagrams", name, len(list))
		}
		for i, want := range []string{"aaaa", "bbbb", "cc"} {
			got := list[i]
			size := len(got) - len(want)
			if string(got[size:]) != want || int(got[c.length])<<8+int(got[c.length+1]) != len(got)-c.head || int(got[size-4])<<8+int(got[size-3]) != 8+len(want) {
				t.Errorf("%s: datagram %d is % x", name, i, got)
			}
		}
		if whole := (packet{data: c.data, segment: 100}).datagrams(); len(whole) != 1 || len(whole[0]) != len(c.data) {
			t.Errorf("%s: one datagram became %d", name, len(whole))
		}
	}
}

// All packets from a sandbox are hostile input.
func FuzzParse(f *testing.F) {
	f.Add(make([]byte, 60), true)
	f.Add(append(make([]byte, headerSize), 0x45), false)
	f.Add(append([]byte{0, segmentsUDP, 0, 0, 1, 0, 0, 0, 0, 0, 0x4f}, make([]byte, 40)...), false)
	f.Fuzz(func(_ *testing.T, frame []byte, ethernet bool) {
		p := (&link{ethernet: ethernet}).parse(frame)
		if p.data == nil {
			return
		}
		p.addresses()
		p.datagrams()
		p.echoRequest()
	})
}

func TestResolvConf(t *testing.T) {
	if got := machineServers(); len(got) == 0 || len(got) > maxServers {
		t.Errorf("this machine asks %v", got)
	}
}
