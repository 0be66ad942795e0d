package podservices

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// listenTime bounds the wait for services to listen: their description may name ports that they
// never open.
const listenTime = 5 * time.Second

// maxTable bounds the bytes of a table of connections, of 150 for each connection.
const maxTable = 1 << 20

// awaitPorts waits until services that have no health check listen on the TCP ports that their
// description names. On docker, a container takes about a second to start, so those who wrote such
// a description never saw a service that does not listen yet.
func (g *Group) awaitPorts(ctx context.Context, main Guest) {
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		missing := g.openedPorts()
		if len(missing) == 0 {
			return
		}
		table := &excerpt.Ends{Size: maxTable} // the containers of a pod share one network, and cat is the image's
		if _, err := main.Run(ctx, podinit.Run{Args: []string{"cat", "/proc/net/tcp", "/proc/net/tcp6"}, Output: table}); err != nil {
			return
		}
		for _, port := range listening(table.String()) {
			delete(missing, port)
		}
		if len(missing) == 0 || !awake.Sleep(ctx, pause) {
			return
		}
	}
}

// openedPorts returns the TCP ports of the services that run without a health check.
func (g *Group) openedPorts() map[int]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ports := map[int]bool{}
	for name, m := range g.members {
		if name == environment.MainService || m.ended || m.check() != nil {
			continue
		}
		for _, text := range m.Ports {
			number, tcp := strings.CutSuffix(text, "/tcp")
			if port, err := strconv.ParseUint(number, 10, 16); tcp && err == nil && port > 0 { // not a range, which seldom is open as a whole
				ports[int(port)] = true
			}
		}
	}
	return ports
}

// listening returns the ports on which something listens. Source: proc_net_tcp in the kernel's
// documentation (the state 0A, and after the local address its port, in hexadecimal).
func listening(table string) []int {
	ports := map[int]bool{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != "0A" {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
			ports[int(port)] = true
		}
	}
	return slices.Collect(maps.Keys(ports))
}
