package kubernetes

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// testServer is the name under which this program, in a pod, is the server that environments reach.
const testServer = "rollout-test-server"

// TestMain runs the tests. Most of those on a cluster wait.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == testServer {
		listener, err := net.Listen("tcp", ":8080")
		if err == nil {
			err = environmenttest.ServeOutside(listener)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testenv.Parallel(6)
	os.Exit(m.Run())
}
