package rtnl

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// Every address of this machine stays on it, whatever it was given for.
func TestLeavesMachine(t *testing.T) {
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
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // polls
			leaves, err := c.LeavesMachine(addr)
			if err == nil && !leaves || !stillThere(t, addr) {
				break
			}
			if time.Now().After(deadline) { // an address that is new is tentative for a second or two
				t.Errorf("%s leaves this machine: %t, error %v", addr, leaves, err)
				break
			}
		}
	}
}

// stillThere reports whether this machine has the address: an engine's containers come and go with
// theirs.
func stillThere(t *testing.T, addr netip.Addr) bool {
	t.Helper()
	if addr.Unmap().IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		there, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		return there == addr
	})
}
