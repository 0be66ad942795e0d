// Package probe is a program in pods that shows what a network lets through: it listens, or it
// waits until an address can or cannot be reached. It does not know who asks.
package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Program is the name under which this program is started.
const Program = "rollout-probe"

// The first argument. The second one is the address: Open and Denied accept further addresses after
// commas, which are targets.
const (
	Listen = "listen" // accept connections and close them
	Open   = "open"   // end when a connection was made, and say which of the targets are reached, too
	Closed = "closed" // end when no connection can be made
	Denied = "denied" // end when no connection can be made, nor to any of the targets, and say which were tried
)

// The exit codes besides 0.
const (
	Failed = 1 // could not do its work
	Unmet  = 3 // the awaited state has not come
	Leak   = 4 // the address cannot be reached, but other targets can; the message says which
)

const (
	// patience is how long a network may take to be as it is to be. Policies reach nodes after the
	// pods that they are about.
	patience = time.Minute
	// dialTimeout is how long an answer may take. Policies as a rule drop packets.
	dialTimeout = time.Second
	// refusals is how many attempts in a row must fail.
	refusals = 2
	pause    = 100 * time.Millisecond

	// targetTimeout is how long a target may take for an answer, and silences how many attempts in
	// a row must fail.
	targetTimeout = 2 * time.Second
	silences      = 3
	// prompt is the longest time of an answer to a pod without restrictions after which the silence
	// of a restricted pod shows something.
	prompt = targetTimeout / 2
	// looks is how many attempts such a pod makes until it gets a prompt answer, and search how
	// long it waits for any answer of name servers, which each cluster as a rule has.
	looks  = 3
	search = 20 * time.Second
	// again is the time between two questions to a name server in one attempt: packets get lost.
	again = 500 * time.Millisecond
)

// messages is where the kubelet reads why a container ended. Source: Kubernetes,
// terminationMessagePath.
const messages = "/dev/termination-log"

func init() {
	if len(os.Args) != 3 || filepath.Base(os.Args[0]) != Program {
		return
	}
	code, message := run(os.Args[1], os.Args[2], patience)
	if message != "" {
		fmt.Fprintln(os.Stderr, message)
		_ = os.WriteFile(messages, []byte(message), 0o644) // it is there to be read
	}
	os.Exit(code)
}

func run(what, address string, patience time.Duration) (code int, message string) {
	address, others, _ := strings.Cut(address, ",")
	switch what {
	case Listen:
		l, err := net.Listen("tcp", address) //nolint:noctx // it listens until it is killed
		if err != nil {
			return Failed, err.Error()
		}
		return Failed, serve(l).Error()
	case Open:
		if code, message := await(address, patience, true); code != 0 {
			return code, message
		}
		return 0, tell(look(usual(others), search))
	case Closed:
		return await(address, patience, false)
	case Denied:
		return denied(address, usual(others), patience)
	}
	return Failed, "unknown argument " + what
}

// serve accepts connections until the listener fails.
func serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(c, "rollout\n")
		_ = c.Close()
	}
}

// denied waits until nothing can be reached.
func denied(address string, all []Target, patience time.Duration) (code int, message string) {
	var seen Seen
	var looking sync.WaitGroup
	looking.Go(func() { seen = shut(all, patience) })
	code, message = await(address, patience, false)
	looking.Wait()
	switch {
	case code != 0:
		return code, message
	case len(seen.Reached) > 0:
		seen.Silent = nil
		return Leak, tell(seen)
	}
	return 0, tell(seen)
}

// tell returns a message.
func tell(s Seen) string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// await waits until a connection can be made, or cannot.
func await(address string, patience time.Duration, wanted bool) (code int, message string) {
	reached, last := settle(func() error { return connect(address) }, patience, refusals, wanted)
	switch {
	case reached == wanted:
		return 0, ""
	case wanted:
		return Unmet, fmt.Sprintf("%s could not be reached within %s: %v", address, patience, last)
	}
	return Unmet, fmt.Sprintf("%s was reached for %s", address, patience)
}

// settle tries until something is reached, or is not row times in a row, as wanted; or until
// patience is over. It returns the last result.
func settle(reach func() error, patience time.Duration, row int, wanted bool) (reached bool, last error) {
	failed, end := 0, time.Now().Add(patience)
	for {
		last = reach()
		if reached = last == nil; reached != wanted {
			failed = 0
		} else if failed++; wanted || failed == row {
			return reached, last
		}
		if !time.Now().Before(end) && failed == 0 { // else the row decides, or ends with the next try
			return !wanted, last
		}
		time.Sleep(pause)
	}
}

func connect(address string) error {
	c, err := dial("tcp", address, dialTimeout)
	if err != nil {
		return err
	}
	return c.Close()
}

func dial(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
