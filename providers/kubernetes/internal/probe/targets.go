package probe

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Variables of a pod that looks around.
const (
	// NodeVariable has the address of the node.
	NodeVariable = "ROLLOUT_NODE"
	// AcceptedVariable has the kinds of targets that may be reached, with commas between them.
	AcceptedVariable = "ROLLOUT_ACCEPTED"
)

// The kinds of targets.
const (
	NameServer = "dns"      // leads out of the cluster, one question at a time
	API        = "api"      // the API service of the cluster
	Metadata   = "metadata" // where clouds answer with the credentials of a node
	Node       = "node"     // on which the pod runs
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
	Silent  []Target `json:"silent,omitempty"`
}

// ReadSeen parses the message of a pod; the result is empty if it is no such message.
func ReadSeen(message string) Seen {
	var s Seen
	if json.Unmarshal([]byte(message), &s) != nil {
		return Seen{}
	}
	return s
}

// metadata are addresses of services that give credentials to machines: of most clouds, Amazon's
// for IPv6 and for pods, Azure's, Alibaba's.
var metadata = []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "169.254.170.23:80", "168.63.129.16:80", "100.100.100.200:80"}

// nodePorts are those of servers that nodes as a rule have: the kubelet's three, the API server's,
// and that of SSH.
var nodePorts = []string{"10250", "10255", "10256", "6443", "22"}

// usual returns the targets that pods of most clusters have.
func usual() []Target {
	return targets(os.Getenv, readFile("/etc/resolv.conf"), readFile("/proc/net/route"))
}

func readFile(name string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return "" // unknown targets are not tried
	}
	return string(content)
}

func targets(getenv func(string) string, resolvConf, routes string) []Target {
	var all []Target
	add := func(kind, protocol, host, port string) {
		t := Target{Kind: kind, Protocol: protocol, Address: net.JoinHostPort(host, port)}
		if host != "" && port != "" && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	for _, server := range nameServers(resolvConf) {
		add(NameServer, "udp", server, "53")
		add(NameServer, "tcp", server, "53")
	}
	add(API, "tcp", getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"))
	for _, address := range metadata {
		all = append(all, Target{Kind: Metadata, Protocol: "tcp", Address: address})
	}
	for _, host := range []string{getenv(NodeVariable), gateway(routes)} {
		for _, port := range nodePorts {
			add(Node, "tcp", host, port)
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

// look tries each target until it is as wanted, or patience is over, or the limit of attempts, if
// any.
func look(all []Target, patience time.Duration, attempts int, wanted bool) Seen {
	reached := make([]bool, len(all))
	var trying sync.WaitGroup
	for i, t := range all {
		trying.Go(func() { reached[i], _ = settle(t.reach, patience, attempts, wanted) })
	}
	trying.Wait()
	var s Seen
	for i, t := range all {
		if reached[i] {
			s.Reached = append(s.Reached, t)
		} else {
			s.Silent = append(s.Silent, t)
		}
	}
	return s
}

// reach returns nil if a connection was made or a question was answered. A refusal is no answer:
// networks refuse what they forbid.
func (t Target) reach() error {
	c, err := dial(t.Protocol, t.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	if t.Protocol != "udp" {
		return nil
	}
	return ask(c)
}

// question asks for the address of the API service, which name servers of clusters know themselves.
var question = func() []byte {
	q := []byte{'r', 'o', 1, 0, 0, 1, 0, 0, 0, 0, 0, 0} // an id, recursion desired, one question. Source: RFC 1035, 4.1.1.
	for label := range strings.SplitSeq("kubernetes.default.svc.cluster.local.", ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 1, 0, 1) // A, IN
}()

// ask puts a question to a name server. Any answer counts, also that there is no such name.
func ask(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(question); err != nil {
		return err
	}
	answer := make([]byte, 512)
	n, err := c.Read(answer)
	switch {
	case err != nil:
		return err
	case n < 12 || answer[0] != question[0] || answer[1] != question[1] || answer[2]&0x80 == 0:
		return errors.New("no answer to the question")
	}
	return nil
}
