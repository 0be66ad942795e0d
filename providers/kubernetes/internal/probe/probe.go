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
	"sync"
	"time"
)

// Program is the name under which this program is started.
const Program = "rollout-probe"

// The first argument. The second one is the address.
const (
	Listen = "listen" // accept connections and close them
	Open   = "open"   // end when a connection was made, and say which of the usual targets are reached, too
	Closed = "closed" // end when no connection can be made
	Denied = "denied" // end when no connection can be made, nor to any of the usual targets
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
	// looks is how often a target may stay silent in a network without restrictions.
	looks = 2
	pause = 100 * time.Millisecond
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
		return 0, tell(look(usual(), patience, looks, true))
	case Closed:
		return await(address, patience, false)
	case Denied:
		return denied(address, usual(), patience)
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
	looking.Go(func() { seen = look(all, patience, 0, false) })
	code, message = await(address, patience, false)
	looking.Wait()
	if code == 0 && len(seen.Reached) > 0 {
		seen.Silent = nil
		return Leak, tell(seen)
	}
	return code, message
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
	reached, last := settle(Target{Protocol: "tcp", Address: address}.reach, patience, 0, wanted)
	switch {
	case reached == wanted:
		return 0, ""
	case wanted:
		return Unmet, fmt.Sprintf("%s could not be reached within %s: %v", address, patience, last)
	}
	return Unmet, fmt.Sprintf("%s was reached for %s", address, patience)
}

// settle tries until something is reached, or is not several times in a row, as wanted; or until
// patience is over, or the limit of attempts, if any. It returns the last result.
func settle(reach func() error, patience time.Duration, attempts int, wanted bool) (reached bool, last error) {
	row, end := 0, time.Now().Add(patience)
	for n := 1; ; n++ {
		last = reach()
		if reached = last == nil; reached != wanted {
			row = 0
		} else if row++; wanted || row == refusals {
			return reached, nil
		}
		if n == attempts || !time.Now().Before(end) {
			return !wanted, last
		}
		time.Sleep(pause)
	}
}

func dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
