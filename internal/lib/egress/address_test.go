package egress

import (
	"net/netip"
	"testing"
)

func TestMayBeRemote(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "10.1.2.3": true, "192.168.1.1": true, "172.16.0.1": true, "100.64.0.1": true, "198.51.100.7": true,
		"2606:4700::1111": true, "fd12::1": true, "64:ff9b::808:808": true, "2002:808:808::1": true,

		"127.0.0.1": false, "127.255.255.255": false, "0.0.0.0": false, "0.1.2.3": false, "169.254.169.254": false, "224.0.0.1": false,
		"255.255.255.255": false, "240.0.0.1": false, "100.100.100.200": false, "168.63.129.16": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::127.0.0.1": false, "fe80::1": false, "ff02::1": false, "fec0::1": false,
		"fd00:ec2::254": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "2002:7f00:1::1": false, "fd12::1%eth0": false,
	} {
		if got := MayBeRemote(netip.MustParseAddr(text)); got != want {
			t.Errorf("MayBeRemote(%s) is %t, want %t", text, got, want)
		}
	}
	if MayBeRemote(netip.Addr{}) {
		t.Error("no address is elsewhere")
	}
}
