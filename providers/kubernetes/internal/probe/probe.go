// Package probe is a program in pods that shows what a network lets through: it listens, or it waits until an address can or cannot
// be reached. It does not know who asks.
package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Program is the name under which this program is started.
const Program = "rollout-probe"

// The first argument. The second one is the address.
const (
	Listen = "listen" // accept connections and close them
	Open   = "open"   // end when a connection was made
	Closed = "closed" // end when no connection can be made
)

// The exit codes besides 0.
const (
	Failed = 1 // could not do its work
	Unmet  = 3 // what it waited for has not come
)

const (
	// patience is how long a network may take to be as it is to be. Policies reach nodes after the pods that they are about.
	patience = time.Minute
	// dialTimeout is how long an answer may take. Policies as a rule drop packets.
	dialTimeout = time.Second
	// refusals is how many attempts in a row must fail.
	refusals = 2
	pause    = 100 * time.Millisecond
)

// messages is where the kubelet reads why a container ended. Source: Kubernetes, terminationMessagePath.
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
		return await(address, patience, true)
	case Closed:
		return await(address, patience, false)
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

// await waits until a connection can be made, or cannot.
func await(address string, patience time.Duration, wanted bool) (code int, message string) {
	last, row := error(nil), 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(pause) {
		last = dial(address)
		if (last == nil) != wanted {
			row = 0
			continue
		}
		if row++; wanted || row == refusals {
			return 0, ""
		}
	}
	if wanted {
		return Unmet, fmt.Sprintf("%s could not be reached within %s: %v", address, patience, last)
	}
	return Unmet, fmt.Sprintf("%s was reached for %s", address, patience)
}

func dial(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err
}
