package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/docker/internal/killer"
)

// killers holds the provider's killer, which is started on first use: one for all containers.
type killers struct {
	turn   chan struct{} // held by who looks at the rest
	now    *killerContainer
	closed bool
}

func newKillers() *killers { return &killers{turn: make(chan struct{}, 1)} }

// errKillerGone says that the connection to a killer has ended.
var errKillerGone = errors.New("the container that ends commands has ended itself")

// ask sends a request to the killer, and to another one if it ends: requests may be repeated.
func (e *containerEnv) ask(ctx context.Context, r killer.Request) (answer killer.Answer, err error) {
	err = persistWhile(ctx, func(err error) bool { return errors.Is(err, errKillerGone) }, func() error {
		k, err := e.p.killers.get(ctx, e.p, e.image)
		if err != nil {
			return fmt.Errorf("start the container that ends commands: %w", err)
		}
		answer, err = k.ask(ctx, r)
		return err
	})
	return answer, err
}

var errClosed = errors.New("the provider was closed")

func (s *killers) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *killers) unlock() { <-s.turn }

// get returns a killer that is ready. If there is none, it starts one in a container of the image.
func (s *killers) get(ctx context.Context, p *Provider, image string) (*killerContainer, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.now != nil && s.now.alive():
		return s.now, nil
	case s.now != nil:
		s.now.end(ctx)
		s.now = nil
	}
	var k *killerContainer
	again := func(err error) bool {
		return !isContext(err) && !isRefusal(err) && (environment.KindOf(err) != environment.KindUnavailable || environment.IsTransient(err))
	}
	err := persistWhile(ctx, again, func() (err error) {
		k, err = p.startKiller(ctx, image)
		return err
	})
	s.now = k
	return k, err
}

// close ends the killer and prevents new ones.
func (s *killers) close() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupGrace)
	defer cancel()
	if s.lock(ctx) != nil {
		return // the one that is about to begin ends with this process
	}
	defer s.unlock()
	s.closed = true
	if s.now != nil {
		s.now.end(ctx)
	}
}

// killerContainer is a container in which this program runs as a killer. See package killer.
type killerContainer struct {
	p     *Provider
	id    string
	conn  types.HijackedResponse
	ended chan struct{} // closed when it has no more to say

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan<- killer.Answer
	said    bounded // besides answers
}

// killerJob is the job in the labels of a killer's container.
const killerJob = "(ends commands)"

// startKiller starts a killer in a container of the image.
func (p *Provider) startKiller(ctx context.Context, image string) (*killerContainer, error) {
	program, err := p.program(killer.Role)
	if err != nil {
		return nil, err
	}
	name := namePrefix + "killer-" + strings.ToLower(rand.Text()[:16])
	remapped := slices.Contains(p.info.SecurityOptions, "name=userns")
	config, host := killerConfig(image, environment.Labels{Job: killerJob, Trial: "-", Owner: environment.Self()}, remapped)
	created, err := p.api.ContainerCreate(ctx, config, host, nil, nil, name)
	if err != nil {
		return nil, p.discard(ctx, name, failed(environment.KindStart, "create it", err))
	}
	k := &killerContainer{
		p: p, id: created.ID, ended: make(chan struct{}), waiting: map[int64]chan<- killer.Answer{}, said: bounded{left: maxHelperErrors},
	}
	if err := k.begin(ctx, program); err != nil {
		return nil, p.discard(ctx, name, err)
	}
	return k, nil
}

func (k *killerContainer) begin(ctx context.Context, program environment.Copy) error {
	e := &containerEnv{p: k.p, id: k.id}
	if err := e.upload(ctx, []environment.Copy{program}); err != nil {
		return failed(environment.KindStart, "copy rollout into it", err)
	}
	conn, err := hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return k.p.api.ContainerAttach(ctx, k.id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	})
	if err != nil {
		return failed(environment.KindStart, "attach to it", err)
	}
	k.conn = conn
	output, writer := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(writer, &k.said, conn.Reader)
		writer.CloseWithError(errors.Join(err, io.EOF))
	}()
	go func() {
		defer close(k.ended)
		_ = killer.Answers(output, k.deliver)
		output.Close()
		conn.Close()
	}()
	if err := k.p.api.ContainerStart(ctx, k.id, container.StartOptions{}); err != nil {
		conn.Close()
		<-k.ended
		return failed(environment.KindStart, "start it", err)
	}
	return nil
}

func (k *killerContainer) deliver(a killer.Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if waiting := k.waiting[a.ID]; waiting != nil {
		waiting <- a
		delete(k.waiting, a.ID)
	}
}

func (k *killerContainer) alive() bool {
	select {
	case <-k.ended:
		return false
	default:
		return true
	}
}

// ask sends a request and waits for the answer.
func (k *killerContainer) ask(ctx context.Context, r killer.Request) (killer.Answer, error) {
	answer := make(chan killer.Answer, 1)
	k.mu.Lock()
	k.last++
	r.ID = k.last
	k.waiting[r.ID] = answer
	line, err := json.Marshal(r)
	if err == nil {
		_, err = k.conn.Conn.Write(append(line, '\n'))
	}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiting, r.ID)
	}()
	if err != nil {
		return killer.Answer{}, fmt.Errorf("%w: %w", errKillerGone, err)
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-k.ended:
		return killer.Answer{}, fmt.Errorf("%w %s", errKillerGone, bytes.TrimSpace([]byte(k.said.String())))
	case <-ctx.Done():
		return killer.Answer{}, ctx.Err()
	}
}

// end ends a killer and removes its container.
func (k *killerContainer) end(ctx context.Context) {
	k.conn.Close()
	<-k.ended
	_ = k.p.remove(ctx, k.id) // one that has ended is removed by the engine
}
