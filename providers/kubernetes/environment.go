package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// podEnv is a pod as an environment. The guest in its container serves commands, copies and
// connections.
type podEnv struct {
	inContainer
	p               *Provider
	name, namespace string
	labels          environment.Labels
	image           registryimage.Image
	variables       bool // it sets some itself
	limits          environment.Limits
	since           time.Time
	stopping        atomic.Bool // Stop ends its processes
	ended           atomic.Bool // Stop or Destroy was called
	mainEnded       atomic.Bool // StopMain was called: no command may begin
	early           early
	group           *group // nil: it has no services

	mu         sync.Mutex
	until      time.Time // when it was destroyed
	target     string    // see enforcement; "" until it is needed
	restricted bool
}

var (
	_ environment.Environment    = (*podEnv)(nil)
	_ environment.NetworkSetter  = (*podEnv)(nil)
	_ environment.Snapshottable  = (*podEnv)(nil)
	_ environment.ChangeReporter = (*podEnv)(nil)
)

// ID returns NAMESPACE/NAME of the pod.
func (e *podEnv) ID() string { return e.namespace + "/" + e.name }

// Unenforced implements environment.LimitReporter: the number of processes is limited by the
// kubelet, for all pods of a node alike.
func (e *podEnv) Unenforced() []string {
	if e.limits.Pids > 0 {
		return []string{"pids"}
	}
	return nil
}

// Cost implements environment.Environment: the price of what was requested, whether it was used or
// not.
func (e *podEnv) Cost() float64 {
	e.mu.Lock()
	until := e.until
	e.mu.Unlock()
	if until.IsZero() {
		until = time.Now()
	}
	return e.p.config.price.of(e.limits, until.Sub(e.since))
}

func (p price) of(l environment.Limits, d time.Duration) float64 {
	perHour := p.cpuHour*float64(l.MilliCPUs)/1000 + p.gibHour*float64(l.Memory)/(1<<30)
	return perHour * d.Hours()
}

// watchOver ends the connection when the pod is gone: its processes may live on for a moment, or
// longer on a node that does not answer.
func (e *podEnv) watchOver() {
	for {
		now, known := e.p.watch.look(e.name)
		if !known {
			return // it was destroyed, or the Provider closed
		}
		if why := e.ending(now); why != nil {
			e.Close()
			return
		}
		select {
		case <-now.changed:
		case <-e.p.watch.ended:
			return
		}
	}
}

// ending returns why the environment has ended, as far as the watch knows, or nil.
func (e *podEnv) ending(now tracked) error {
	if now.pod == nil || now.unsure {
		return nil
	}
	if err := endOf(now.pod); err != nil {
		return err
	}
	if now.gone {
		return lost(false, "pod %s was deleted", e.name)
	}
	return nil
}

// explain returns why the pod does not answer, or nil if it runs as far as is known. It implements
// podinit.Options.Explain.
func (e *podEnv) explain(ctx context.Context) error {
	if e.ended.Load() {
		return lost(false, "pod %s was ended by Rollout", e.name)
	}
	now, known := e.p.watch.look(e.name)
	if known && now.unsure {
		if err := e.p.ask(ctx, e.name); err == nil {
			now, known = e.p.watch.look(e.name)
		}
	}
	if !known {
		return lost(false, "pod %s is gone", e.name)
	}
	return e.ending(now)
}

// lostNow returns the error of an operation that ended because the environment was ended meanwhile,
// or although its pod is gone.
func (e *podEnv) lostNow(err error) error {
	switch {
	case environment.KindOf(err) == environment.KindLost || isContext(err):
		return err
	case e.stopping.Load() || e.ended.Load():
		return lost(false, "pod %s was ended by Rollout", e.name)
	}
	if now, known := e.p.watch.look(e.name); err == nil && known {
		return e.ending(now)
	}
	return err
}

// CopyTo implements environment.Environment.
func (e *podEnv) CopyTo(ctx context.Context, files ...environment.Copy) error {
	return e.lostNow(e.inContainer.CopyTo(ctx, files...))
}

// CopyFrom implements environment.Environment.
func (e *podEnv) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	out, err := e.inContainer.CopyFrom(ctx, src, dst, opts)
	return out, e.lostNow(err)
}

// Exec implements environment.Environment.
func (e *podEnv) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	if e.mainEnded.Load() {
		return -1, lost(false, "main of pod %s was ended by Rollout", e.name)
	}
	code, err := e.inContainer.Exec(ctx, script, opts)
	return code, e.lostNow(err)
}

// ExecTerminal implements environment.TerminalRunner.
func (e *podEnv) ExecTerminal(ctx context.Context, script string, opts environment.ExecOptions, t environment.Terminal) (int, error) {
	if e.mainEnded.Load() {
		return -1, lost(false, "main of pod %s was ended by Rollout", e.name)
	}
	code, err := e.inContainer.ExecTerminal(ctx, script, opts, t)
	return code, e.lostNow(err)
}

// Stop implements environment.Environment: all processes but the guest end, and the pod is marked
// as kept. It stays until its deadline.
func (e *podEnv) Stop(ctx context.Context) error {
	doing := "stop pod " + e.name
	if !e.ended.Load() {
		e.stopping.Store(true) // commands that are killed now may return before KillAll does
		err := e.group.kill(ctx)
		if err == nil {
			err = e.KillAll(ctx)
		}
		if err == nil {
			err = e.Stay(ctx)
		}
		if err != nil && e.explain(ctx) == nil && !e.ended.Load() {
			e.stopping.Store(false)
			return failed(environment.KindTeardown, doing, err)
		}
	}
	e.ended.Store(true)
	e.Close()
	e.group.close()
	// Nor does it end with this process's pod.
	kept := map[string]any{"annotations": map[string]string{annotationKept: "true"}, "ownerReferences": nil}
	if err := e.p.client.patchPod(ctx, e.namespace, e.name, kept); err != nil {
		return failed(environment.KindTeardown, doing, err)
	}
	return nil
}

// Destroy implements environment.Environment.
func (e *podEnv) Destroy(ctx context.Context) error {
	e.ended.Store(true)
	e.mu.Lock()
	if e.until.IsZero() {
		e.until = time.Now()
	}
	e.mu.Unlock()
	err := e.p.remove(ctx, e.namespace, e.name)
	e.Close()
	e.group.close()
	return err
}

// List implements environment.Provider. If the configuration names no namespace, it is all
// namespaces, if this user may list them: rollout clean knows no configuration.
func (p *Provider) List(ctx context.Context) ([]environment.Listed, error) {
	var listed []environment.Listed
	add := func(pod *corev1.Pod) {
		// What has another deletion under way is gone for all but finalizers.
		if _, ours := pod.Annotations[environment.LabelJob]; ours && pod.DeletionTimestamp == nil { // "" with pods of the proof of networks
			listed = append(listed, environment.Listed{
				ID: pod.Namespace + "/" + pod.Name, Labels: environment.ParseLabels(pod.Annotations), Kept: pod.Annotations[annotationKept] != "",
			})
		}
	}
	selector := labelRun + "," + labelRole
	err := error(nil)
	if p.config.namespace == "" {
		if err = p.client.listPods(ctx, "", selector, add); err == nil {
			return listed, nil
		}
		listed = nil
	}
	if p.config.namespace != "" || apierrors.IsForbidden(err) {
		err = p.client.listPods(ctx, p.client.namespace, selector, add)
	}
	if err == nil {
		return listed, nil
	}
	err = failed(environment.KindUnavailable, "list pods of "+p.about, err)
	if e := new(environment.Error); errors.As(err, &e) && apierrors.IsForbidden(err) {
		e.Hint = "name a namespace whose pods you may list: kubectl config set-context --current --namespace NAME"
	}
	return nil, err
}

// Remove implements environment.Provider.
func (p *Provider) Remove(ctx context.Context, id string) error {
	namespace, name, ok := strings.Cut(id, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return nil // no pod has such an ID
	}
	return p.remove(ctx, namespace, name)
}

// reachTime is how long Reachable waits for a server that does not answer: it may be about to start
// again.
const reachTime = 20 * time.Second

// Reachable implements environment.Backend.
func (p *Provider) Reachable(ctx context.Context) error {
	if !p.client.silent.Load() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, p.reachTime)
	defer cancel()
	last := errors.New("it did not answer in time")
	for {
		err := p.client.ping(limited)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !isContext(err) {
			last = err
		}
		select {
		case <-time.After(time.Second):
		case <-limited.Done():
			return &environment.Error{
				Kind: environment.KindUnavailable, Transient: true, Hint: "see kubectl cluster-info",
				Err: fmt.Errorf("%s does not answer any more: %w", p.about, last),
			}
		}
	}
}

// ping checks that the server answers, with whatever status.
func (c *client) ping(ctx context.Context) error {
	err := c.core.Get().AbsPath("/version").Do(ctx).Error()
	if err != nil && (isConnection(err) || isContext(err)) {
		return err
	}
	return nil
}
