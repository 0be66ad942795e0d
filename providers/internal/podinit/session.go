package podinit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/org/rollout-action/internal/core/environment"
)

// key is the secret of one environment, which its client makes. Everything else is derived from it.
type key [32]byte

func newKey() key {
	var k key
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// derive returns 32 bytes for a purpose.
func (k key) derive(purpose string) [32]byte {
	out, err := hkdf.Key(sha256.New, k[:], nil, "rollout guest "+purpose, 32)
	if err != nil {
		panic(err) // 32 bytes can be had of any hash
	}
	return [32]byte(out)
}

// resume is the secret with which a client proves that it is the one that connected first.
func (k key) resume() [32]byte { return k.derive("resume") }

// The two sides of a connection, as purposes of keys.
const (
	clientSide = "client"
	guestSide  = "guest"
)

// configuration returns how one side speaks TLS with the other. Each accepts only the other's key,
// so that a process that sees or changes the bytes on their way, such as a debugger on the
// connector, can do no more than end the connection.
func (k key) configuration(own, other string) (*tls.Config, error) {
	seed := k.derive(own)
	private := ed25519.NewKeyFromSeed(seed[:])
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(10, 0, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	seed = k.derive(other)
	expected := ed25519.NewKeyFromSeed(seed[:]).Public()
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: private}},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // #nosec G402 -- VerifyConnection compares the key
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			public, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok || !public.Equal(expected) {
				return errors.New("the other side has another key")
			}
			return nil
		},
	}, nil
}

// multiplexing returns how both sides divide the connection into streams. The link notices by
// itself when the other side has gone.
func multiplexing() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = resumeTime + time.Minute
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = halfClosedTime
	c.MaxStreamWindowSize = 512 << 10
	c.AcceptBacklog = 1024
	c.LogOutput = io.Discard
	return c
}

const (
	// halfClosedTime is how long a process in the container may wait for an answer after it has
	// closed its end of a connection.
	halfClosedTime = 10 * time.Minute
	// resumeTime is how long a client tries to get another carrier for a connection.
	resumeTime = 5 * time.Minute
	// dialTime bounds one attempt.
	dialTime = 30 * time.Second
	// Attempts are so far apart.
	firstPause, lastPause = 100 * time.Millisecond, 5 * time.Second
)

// dialer makes the carriers of a client's link.
type dialer struct {
	dial  Dialer
	key   key
	first bool // the guest has not answered yet
	link  *link
	// explain returns why the container does not answer any more, or nil.
	explain func(ctx context.Context) error
}

// connect gives the link a carrier. It fails for good only with the errors of dial that are not
// transient, and those of explain.
func (d *dialer) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resumeTime, errors.New("it does not answer, or a process in it ends the connections"))
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := d.try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			if why := d.explain(ctx); why != nil {
				return why
			}
		}
		if final := new(finalError); errors.As(err, &final) {
			return final.err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: the last attempt: %w", context.Cause(ctx), err)
		}
	}
}

// finalError is one that another attempt would meet again.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

func (d *dialer) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, errors.New("there was no answer"))
	defer cancel()
	carrier, err := d.dial(ctx)
	if err != nil {
		if ctx.Err() == nil && !environment.IsTransient(err) {
			return &finalError{err}
		}
		return err
	}
	stop := context.AfterFunc(ctx, func() { carrier.Close() })
	has, err := d.greet(carrier)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		carrier.Close()
		return err
	}
	d.first = false
	err = d.link.attach(carrier, has, func(error) {
		if err := d.connect(context.Background()); err != nil {
			d.link.end(err)
		}
	})
	if err != nil {
		carrier.Close()
		return &finalError{err}
	}
	return nil
}

// greet says hello on a carrier, and returns how many bytes the guest has received.
func (d *dialer) greet(carrier io.ReadWriter) (uint64, error) {
	own := hello{first: d.first, secret: d.key.resume(), received: d.link.detach()}
	if d.first {
		own.secret = d.key
	}
	if _, err := carrier.Write(own.bytes()); err != nil {
		return 0, err
	}
	answer, err := readHello(carrier)
	switch {
	case errors.Is(err, errOtherVersion) && d.first: // later, engines say so why they did not connect
		return 0, &finalError{err}
	case err != nil:
		return 0, err
	case !bytes.Equal(answer.secret[:], make([]byte, 32)):
		return 0, &finalError{errors.New("the guest is connected to another client")}
	}
	return answer.received, nil
}
