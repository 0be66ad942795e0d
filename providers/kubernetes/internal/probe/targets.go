package probe

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Variables of a pod that looks around.
const (
	// NodeVariable has the address of the node, and NodesVariable all of them with commas between
	// them, if the cluster tells.
	NodeVariable  = "ROLLOUT_NODE"
	NodesVariable = "ROLLOUT_NODES"
	// AcceptedVariable has the kinds of targets that may be reached, with commas between them.
	AcceptedVariable = "ROLLOUT_ACCEPTED"
)

// The kinds of targets.
const (
	NameServer = "dns"      // leads out of the cluster, one question at a time
	API        = "api"      // the API service of the cluster
	Metadata   = "metadata" // where clouds answer with the credentials of a node
	Node       = "node"     // on which the pod runs
	Pod        = "pod"      // another address of the pod that listens
)

// Target is an address that a network that lets nothing through must not lead to, besides other
// pods.
type Target struct {
	Kind     string `json:"kind"`
	Protocol string `json:"protocol"` // tcp, or udp for questions to a name server
	Address  string `json:"address"`
}

// Seen holds the findings of a pod.
type Seen struct {
	Reached []Target `json:"reached,omitempty"`
	Silent  []Target `json:"silent,omitempty"` // targets that were not reached
	// Slow are those of Reached that never answered promptly, and Mute those of Silent that are
	// name servers and did not even refuse: both may answer others later.
	Slow []Target `json:"slow,omitempty"`
	Mute []Target `json:"mute,omitempty"`
}

// ReadSeen parses the message of a pod. ok is false if it is no such message: it was lost.
func ReadSeen(message string) (s Seen, ok bool) {
	if json.Unmarshal([]byte(message), &s) != nil {
		return Seen{}, false
	}
	return s, true
}

// metadata are addresses of services that give credentials to machines: of most clouds, Amazon's
// for IPv6 and for pods, Azure's, Alibaba's.
var metadata = []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "169.254.170.23:80", "168.63.129.16:80", "100.100.100.200:80"}

// nodePorts are those of servers that nodes as a rule have: the kubelet's three, the API server's,
// and that of SSH.
var nodePorts = []string{"10250", "10255", "10256", "6443", "22"}

// usual returns the targets that pods of most clusters have, and others: addresses with commas
// between them.
func usual(others string) []Target {
	return targets(os.Getenv, facts{
		resolvConf: readFile("/etc/resolv.conf"), routes: readFile("/proc/net/route"), routes6: readFile("/proc/net/ipv6_route"), pods: others,
	})
}

// facts is what a pod knows of its network.
type facts struct{ resolvConf, routes, routes6, pods string }

func readFile(name string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return "" // unknown targets are not tried
	}
	return string(content)
}

func targets(getenv func(string) string, known facts) []Target {
	var all []Target
	add := func(kind, protocol, host, port string) {
		t := Target{Kind: kind, Protocol: protocol, Address: net.JoinHostPort(host, port)}
		if host != "" && port != "" && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	for _, server := range nameServers(known.resolvConf) {
		add(NameServer, "udp", server, "53")
		add(NameServer, "tcp", server, "53")
	}
	add(API, "tcp", getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"))
	for _, address := range metadata {
		all = append(all, Target{Kind: Metadata, Protocol: "tcp", Address: address})
	}
	hosts := append([]string{getenv(NodeVariable)}, strings.Split(getenv(NodesVariable), ",")...)
	for _, host := range append(hosts, gateway(known.routes), gateway6(known.routes6)) {
		for _, port := range nodePorts {
			add(Node, "tcp", host, port)
		}
	}
	for address := range strings.SplitSeq(known.pods, ",") {
		if host, port, err := net.SplitHostPort(address); err == nil {
			add(Pod, "tcp", host, port)
		}
	}
	accepted := strings.Split(getenv(AcceptedVariable), ",")
	return slices.DeleteFunc(all, func(t Target) bool { return slices.Contains(accepted, t.Kind) })
}

func nameServers(resolvConf string) []string {
	var servers []string
	for line := range strings.Lines(resolvConf) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			servers = append(servers, words[1])
		}
	}
	return servers
}

// gateway returns where packets without another route go, which with many networks is the node; ""
// if there is none. Source: Linux, fib_trie.c.
func gateway(routes string) string {
	for line := range strings.Lines(routes) {
		words := strings.Fields(line)
		var raw uint32
		if len(words) < 3 || words[1] != "00000000" {
			continue
		}
		if n, err := fmt.Sscanf(words[2], "%08X", &raw); n != 1 || err != nil || raw == 0 {
			continue
		}
		var address [4]byte
		binary.NativeEndian.PutUint32(address[:], raw)
		return netip.AddrFrom4(address).String()
	}
	return ""
}

// gateway6 is gateway for IPv6. A gateway of the link has the name of its device in its zone.
// Source: Linux, ipv6/route.c.
func gateway6(routes string) string {
	for line := range strings.Lines(routes) {
		words := strings.Fields(line)
		if len(words) < 10 || words[0] != strings.Repeat("0", 32) || words[1] != "00" {
			continue
		}
		raw, err := hex.DecodeString(words[4])
		address, ok := netip.AddrFromSlice(raw)
		if err != nil || !ok || address.IsUnspecified() {
			continue
		}
		if address.IsLinkLocalUnicast() {
			address = address.WithZone(words[9])
		}
		return address.String()
	}
	return ""
}

// look tries all targets at once in a network without restrictions, each until it answers promptly.
// Name servers get more time until one of them has answered.
func look(all []Target, search time.Duration) (s Seen) {
	type finding struct{ reached, prompt, mute bool }
	var named atomic.Bool // a name server has answered
	found := make([]finding, len(all))
	each(all, func(i int, t Target) {
		f := &found[i]
		for n, end := 1, time.Now().Add(search); ; n++ {
			began := time.Now()
			err := t.reach()
			f.reached = f.reached || err == nil
			f.prompt = err == nil && time.Since(began) <= prompt
			f.mute = t.Kind == NameServer && !f.reached && isTimeout(err)
			if t.Kind == NameServer && f.reached {
				named.Store(true)
			}
			if f.prompt || n >= looks && (t.Kind != NameServer || named.Load() || time.Now().After(end)) {
				return
			}
			time.Sleep(pause)
		}
	})
	for i, t := range all {
		if !found[i].reached {
			s.Silent = append(s.Silent, t)
		} else if s.Reached = append(s.Reached, t); !found[i].prompt {
			s.Slow = append(s.Slow, t)
		}
		if found[i].mute {
			s.Mute = append(s.Mute, t)
		}
	}
	return s
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// shut tries all targets at once in a network that is to lead to none, each until it is not
// reached several times in a row, or patience is over.
func shut(all []Target, patience time.Duration) (s Seen) {
	reached := make([]bool, len(all))
	each(all, func(i int, t Target) { reached[i], _ = settle(t.reach, patience, silences, false) })
	for i, t := range all {
		if reached[i] {
			s.Reached = append(s.Reached, t)
		} else {
			s.Silent = append(s.Silent, t)
		}
	}
	return s
}

// each calls do for all targets at once, and waits.
func each(all []Target, do func(i int, t Target)) {
	var trying sync.WaitGroup
	for i, t := range all {
		trying.Go(func() { do(i, t) })
	}
	trying.Wait()
}

// reach returns nil if a connection was made or a question was answered. A refusal is no answer:
// networks refuse what they forbid.
func (t Target) reach() error {
	c, err := dial(t.Protocol, t.Address, targetTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	if t.Protocol != "udp" {
		return nil
	}
	return ask(c, time.Now().Add(targetTimeout))
}

// question asks for the address of the API service, which name servers of clusters know themselves.
var question = func() []byte {
	q := []byte{'r', 'o', 1, 0, 0, 1, 0, 0, 0, 0, 0, 0} // an id, recursion desired, one question. Source: RFC 1035, 4.1.1.
	for label := range strings.SplitSeq("kubernetes.default.svc.cluster.local.", ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 1, 0, 1) // A, IN
}()

// ask puts a question to a name server, several times until end. Any answer counts, also that there
// is no such name.
func ask(c net.Conn, end time.Time) error {
	answer := make([]byte, 512)
	for {
		now := time.Now()
		if !now.Before(end) {
			return os.ErrDeadlineExceeded
		}
		next := now.Add(again)
		if next.After(end) {
			next = end
		}
		if err := c.SetDeadline(next); err != nil {
			return err
		}
		if _, err := c.Write(question); err != nil {
			return err
		}
		n, err := c.Read(answer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case err != nil:
			return err
		case n < 12 || answer[0] != question[0] || answer[1] != question[1] || answer[2]&0x80 == 0:
			return errors.New("no answer to the question")
		default:
			return nil
		}
	}
}
