package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/sandbox"
)

// download is the size of a download in bytes.
const download = 128 << 20

// outside is the address of downloads as sandboxes see it: one for documentation (RFC 5737). Connections to it go to a server in
// this process.
var outside = netip.MustParseAddr("192.0.2.1")

// sandboxNetwork measures the cost of a sandbox's own network: for a hello trial, which does not use it, and for downloads.
func (b *bench) sandboxNetwork(ctx context.Context, ours *onSandbox, _ *unboxed) (err error) {
	server, err := serveZeros(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	dir := filepath.Join(b.dir, "sandbox")
	shared, err := newSandboxes(ctx, dir, map[string]any{"network": "host"}, sandbox.Options{})
	if err != nil {
		return err
	}
	defer shared.Close()
	job, err := newStage(ctx, filepath.Join(dir, "network-host"), b.image, 1, shared)
	if err != nil {
		return err
	}
	onHost := &onSandbox{stage: job, provider: shared, image: b.image}
	b.logf("sandbox: %d single trials in turn with the same on this machine's network", b.rounds)
	values, err := turns(ctx, 2, b.rounds, ours.trial, onHost.trial)
	if err != nil {
		return err
	}
	b.add(newResult("sandbox.network", "ms",
		series{"a job of one hello trial in a sandbox with a network of its own", values[0]},
		series{"the same in a sandbox on this machine's network", values[1]},
		atMost("difference", 5)))
	address := server.Addr().(*net.TCPAddr)
	connected, err := newSandboxes(ctx, dir, nil, sandbox.Options{Dial: dialing(address)})
	if err != nil {
		return err
	}
	defer connected.Close()
	return b.sandboxDownload(ctx, connected, address)
}

// dialing returns a function that connects to server, whatever the address.
func dialing(server *net.TCPAddr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.String())
	}
}

// sandboxDownload measures downloads from a server in this process: in a sandbox with its own network, whose connections all go
// there, and by a process of this machine.
func (b *bench) sandboxDownload(ctx context.Context, provider environment.Provider, server *net.TCPAddr) (err error) {
	env, err := (&onSandbox{provider: provider, image: b.image}).create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Destroy(context.WithoutCancel(ctx))) }()
	const client = `[ "$(wc -c < /dev/tcp/%s/%d)" = %d ]`
	rounds := b.fewer(4, 3)
	b.logf("sandbox: %d downloads of %d MiB in turn with this machine's own", rounds, download>>20)
	values, err := turns(ctx, 1, rounds,
		perSecond(timed(func(ctx context.Context) error {
			code, err := env.Exec(ctx, fmt.Sprintf(client, outside, server.Port, download), environment.ExecOptions{Stdout: io.Discard, Stderr: io.Discard})
			if err == nil && code != 0 {
				err = fmt.Errorf("the download in the sandbox ended with %d", code)
			}
			return err
		})),
		perSecond(process("bash", "-c", fmt.Sprintf(client, server.IP, server.Port, download))))
	if err != nil {
		return err
	}
	b.add(newResult("sandbox.download", "MB/s",
		series{"a download in a sandbox with a network of its own", values[0]},
		series{"the same download by a process of this machine, over its loopback device", values[1]},
		atLeast("ours", 100)))
	return nil
}

// perSecond returns the speed of a download in millions of bytes a second, given its duration in milliseconds.
func perSecond(took measured) measured {
	return func(ctx context.Context) (float64, error) {
		ms, err := took(ctx)
		return download / 1e6 / (ms / 1000), err
	}
}

// serveZeros starts a server on this machine's loopback device that writes zeros to every client.
func serveZeros(ctx context.Context) (net.Listener, error) {
	server, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				piece := make([]byte, 1<<20)
				for range download / len(piece) {
					if _, err := conn.Write(piece); err != nil {
						return // the client counts, and fails
					}
				}
			}()
		}
	}()
	return server, nil
}
