package rtnl

import (
	"net"
	"net/netip"
	"testing"
)

// Every address of this machine stays on it, whatever it was given for.
func TestWhatLeavesThisMachine(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Fatalf("addresses %v, error %v", own, err)
	}
	stays := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.1.2.3"), netip.MustParseAddr("::ffff:127.0.0.1")}
	for _, a := range own {
		addr, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		stays = append(stays, addr)
	}
	for _, addr := range stays {
		if leaves, err := c.Leaves(addr); err != nil || leaves {
			t.Errorf("%s leaves this machine: %t, error %v", addr, leaves, err)
		}
	}
}
