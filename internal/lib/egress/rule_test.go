package egress

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"pypi.org":            "pypi.org",
		"PyPI.org.":           "pypi.org",
		"*.pypi.org":          "*.pypi.org",
		"pypi.org:8443":       "pypi.org:8443",
		"*.pypi.org:22":       "*.pypi.org:22",
		"192.0.2.1":           "192.0.2.1",
		"192.0.2.1:8080":      "192.0.2.1:8080",
		"::ffff:192.0.2.1":    "192.0.2.1",
		"2001:db8::1":         "2001:db8::1",
		"[2001:db8::1]":       "2001:db8::1",
		"[2001:DB8::1]:8080":  "[2001:db8::1]:8080",
		"xn--bcher-kva.de":    "xn--bcher-kva.de",
		"under_score.example": "under_score.example",
		"localhost:8080":      "localhost:8080",
		"192.0.2.0/24":        "192.0.2.0/24",
		"192.0.2.7/32:8443":   "192.0.2.7/32:8443",
		"0.0.0.0/0":           "0.0.0.0/0",
		"2001:DB8::/32":       "2001:db8::/32",
		"[2001:db8::/32]":     "2001:db8::/32",
		"[2001:db8::/32]:22":  "[2001:db8::/32]:22",
		"::ffff:10.0.0.0/104": "10.0.0.0/8",
	} {
		r, err := ParseRule(text)
		if err != nil || r.String() != want {
			t.Errorf("%q is parsed as %q, %v; want %q", text, r, err, want)
		}
	}
}

func TestInvalidRulesNameTheRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "such as pypi.org",
		"*":                       "network: public",
		"https://pypi.org":        "without https://",
		"pypi.org/simple":         "without a path",
		"10.0.0.1/8":              "write 10.0.0.0/8",
		"10.0.0.0/33":             "from 0 to 32",
		"10.0.0.0/08":             "from 0 to 32",
		"10.0.0.0/-1":             "from 0 to 32",
		"10.0.0.0/":               "from 0 to 32",
		"10.0.0.0/8/8":            "from 0 to 32",
		"10.0.0.0/255.0.0.0":      "from 0 to 32",
		"10.0.0.0/8:0":            "port from 1 to 65535",
		"2001:db8::/129":          "from 0 to 128",
		"2001:db8::1/32":          "write 2001:db8::/32",
		"[2001:db8::/32":          "not closed",
		"[2001:db8::]/32":         "without a path",
		"fe80::%eth0/10":          "zone",
		"10.0.0/8":                "without a path",
		"pypi.org:":               "port from 1 to 65535",
		"pypi.org:0":              "port from 1 to 65535",
		"pypi.org:65536":          "port from 1 to 65535",
		"pypi.org:https":          "port from 1 to 65535",
		"py*.org":                 "write *.pypi.org",
		"*.*.org":                 "write *.pypi.org",
		"pypi..org":               "1 to 63",
		"bücher.de":               "Punycode",
		"a b":                     "letters, digits",
		"pypi.org\n":              "letters, digits",
		"1.2.3":                   "looks like an address",
		"1.2.3.4.5":               "looks like an address",
		"fe80::1%eth0":            "zone",
		strings.Repeat("a", 64):   "1 to 63",
		strings.Repeat("a.", 200): "is not a host",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a message with %q", text, err, want)
		}
	}
}

func TestPolicyAllowsNamesAndPorts(t *testing.T) {
	policy, err := Parse([]string{"pypi.org", "*.example.com", "git.example.net:22", "192.0.2.1", "[2001:db8::1]:8080"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host string
		port uint16
		want bool
	}{
		{"pypi.org", 443, true},
		{"pypi.org", 80, true},
		{"pypi.org", 22, false},
		{"files.pypi.org", 443, false},
		{"notpypi.org", 443, false},
		{"pypi.org.evil.example", 443, false},
		{"a.example.com", 443, true},
		{"a.b.example.com", 443, true},
		{"example.com", 443, false},
		{"badexample.com", 443, false},
		{"git.example.net", 22, true},
		{"git.example.net", 443, false},
		{"192.0.2.1", 443, true},
		{"192.0.2.1", 22, false},
		{"192.0.2.2", 443, false},
		{"2001:db8::1", 8080, true},
		{"2001:db8::1", 443, false},
	} {
		got := policy.listsName(c.host, c.port)
		if addr, err := netip.ParseAddr(c.host); err == nil {
			got = policy.listsAddr(addr, c.port)
		}
		if got != c.want {
			t.Errorf("%s:%d: %t, want %t", c.host, c.port, got, c.want)
		}
		if (Policy{}).listsName(c.host, c.port) {
			t.Errorf("%s:%d: the empty list allows it", c.host, c.port)
		}
	}
}

func TestIsPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "151.101.0.223": true, "2606:4700::1111": true, "2a00:1450::1": true,
		"127.0.0.1": false, "127.255.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "172.32.0.1": true,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false, "0.1.2.3": false,
		"224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "198.18.0.1": false, "192.0.2.1": false,
		"::1": false, "::": false, "fe80::1": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001:0:1::": false, "2001:db8::1": false, "100::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"PyPI.org:443": "pypi.org 443", "pypi.org.:443": "pypi.org 443", "[::1]:80": "::1 80", "127.0.0.1:1": "127.0.0.1 1",
		"[::ffff:127.0.0.1]:80": "127.0.0.1 80",
		"pypi.org":              "", "pypi.org:0": "", ":80": "", "a/b:80": "", "a@b:80": "", "127.1:80": "", "0x7f000001:80": "0x7f000001 80",
		"2130706433:80": "", "[fe80::1%lo]:80": "", "a\x1b[2J:80": "",
	} {
		got := ""
		if target, err := parseTarget(text, 0); err == nil {
			got = target.host + " " + strings.TrimPrefix(netip.AddrPortFrom(netip.IPv4Unspecified(), target.port).String(), "0.0.0.0:")
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add("*.pypi.org:443")
	f.Add("[::1]:80")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		if again, err := ParseRule(r.String()); err != nil || again != r {
			t.Errorf("%q is %q, which is parsed as %q: %v", text, r, again, err)
		}
	})
}

// A range allows its addresses. It allows addresses that are not public only if it contains no
// public ones.
func TestRangesAllowAddresses(t *testing.T) {
	for _, c := range []struct {
		rule, addr string
		port       uint16
		want       bool
	}{
		{"93.184.216.0/24", "93.184.216.34", 443, true},
		{"93.184.216.0/24", "93.184.216.34", 22, false},
		{"93.184.216.0/24:22", "93.184.216.34", 22, true},
		{"93.184.216.0/24", "93.184.217.34", 443, false},
		{"93.184.216.34/32", "93.184.216.34", 443, true},
		{"10.0.0.0/8", "10.1.2.3", 443, true},
		{"10.1.0.0/16", "10.1.2.3", 443, true},
		{"127.0.0.0/8", "127.0.0.1", 443, true},
		{"169.254.0.0/16", "169.254.169.254", 80, true},
		{"0.0.0.0/0", "93.184.216.34", 443, true},
		{"0.0.0.0/0", "169.254.169.254", 80, false},
		{"0.0.0.0/0", "127.0.0.1", 80, false},
		{"168.0.0.0/6", "169.254.169.254", 80, false},
		{"0.0.0.0/0", "2606:2800:220::1", 443, false},
		{"::/0", "2606:2800:220::1", 443, true},
		{"::/0", "::1", 443, false},
		{"::/0", "fd00::1", 443, false},
		{"::/0", "93.184.216.34", 443, false},
		{"fd00::/8", "fd00::1", 443, true},
		{"::1/128", "::1", 443, true},
		{"2606:2800::/32", "2606:2800:220::1", 443, true},
		{"2606:2800::/32", "2606:2801::1", 443, false},
		{"::ffff:10.0.0.0/104", "10.1.2.3", 443, true},
	} {
		policy, err := Parse([]string{c.rule})
		if err != nil {
			t.Fatal(err)
		}
		if got := policy.Allows(c.addr, c.port); got != c.want {
			t.Errorf("%s lets %s:%d through: %t, want %t", c.rule, c.addr, c.port, got, c.want)
		}
	}
}

// TestRangesDoNotAllowNames: a range lists addresses. A name that leads into one has to be listed
// itself, and is then let through also to addresses that are not public.
func TestRangesDoNotAllowNames(t *testing.T) {
	inside := func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
	}
	at := target{host: "db.example.com", port: 443}
	for _, c := range []struct {
		rules []string
		want  string // of the error; "" if there is none
	}{
		{[]string{"10.0.0.0/8"}, "allowed_hosts does not list it"},
		{[]string{"db.example.com"}, "not a public address"},
		{[]string{"db.example.com", "0.0.0.0/0"}, "not a public address"},
		{[]string{"db.example.com", "10.0.0.0/8:8443"}, "not a public address"},
		{[]string{"db.example.com", "10.0.0.0/8"}, ""},
	} {
		policy, err := Parse(c.rules)
		if err != nil {
			t.Fatal(err)
		}
		_, err = policy.admitted(t.Context(), at, inside)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.rules, err, c.want)
		}
	}
}
