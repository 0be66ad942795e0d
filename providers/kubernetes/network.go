package kubernetes

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/providers/kubernetes/internal/probe"
)

const (
	policyName  = "rollout-restricted"
	openName    = "rollout-open"
	targetPort  = 8411
	probePath   = "/" + probe.Program
	probeClosed = probe.Closed

	// restrictTime is how long a change of the network may take to reach a node.
	restrictTime = time.Minute
	// connectionTime is how long connections may live on after that.
	connectionTime = 10 * time.Second
	// openTime is how long a pod whose network is open may take to reach another one.
	openTime = 10 * time.Second
	// reachPause is the time between two looks, and reachWait how long an answer may take.
	reachPause = 200 * time.Millisecond
	reachWait  = time.Second
)

// checkNetwork refuses a network whose list cannot be read.
func checkNetwork(n environment.Network) error {
	if n.Mode != environment.NetworkAllowlist {
		return nil
	}
	if _, err := egress.Parse(n.Hosts); err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("allowed_hosts: %w", err)}
	}
	return nil
}

// SetNetwork implements environment.NetworkSetter: the pod's label decides whether the policy is
// for it.
func (e *podEnv) SetNetwork(ctx context.Context, n environment.Network) error {
	if err := checkNetwork(n); err != nil {
		return err
	}
	if err := e.explain(ctx); err != nil {
		return err
	}
	var err error
	switch restricted := !n.Public(); {
	case restricted && !e.restricted:
		if err = e.restrict(ctx); err == nil {
			err = e.SetProxy(ctx, n)
		}
	case !restricted && e.restricted:
		if err = e.SetProxy(ctx, n); err == nil {
			err = e.release(ctx)
		}
	default:
		err = e.SetProxy(ctx, n)
	}
	return e.lostNow(wrapped(environment.KindStart, "set the network of pod "+e.name, err))
}

// relabel has the policy select the pod, or not.
func (e *podEnv) relabel(ctx context.Context, network string) error {
	err := e.p.client.patchPod(ctx, e.namespace, e.name, map[string]any{"labels": map[string]string{labelNetwork: network}})
	if apierrors.IsNotFound(err) {
		return lost(false, "pod %s is gone", e.name)
	}
	return err
}

// restrict takes the network away, and waits until it is gone.
func (e *podEnv) restrict(ctx context.Context) error {
	target, err := e.p.proof.enforced(ctx, nil)
	if err != nil {
		return err
	}
	// Otherwise it would show nothing that it cannot reach it afterwards.
	if err := e.awaitNetwork(ctx, target, openTime); err != nil {
		return err
	}
	if err := e.relabel(ctx, networkRestricted); err != nil {
		return err
	}
	e.restricted, e.target = true, target
	reached, err := e.awaitReach(ctx, target, false, restrictTime)
	switch {
	case err != nil:
		return err
	case reached:
		return notEnforced(target + " was reached for " + restrictTime.String())
	}
	if err := e.p.proof.standing(target); err != nil {
		return err
	}
	return e.awaitSilence(ctx)
}

// release gives the pod its network back.
func (e *podEnv) release(ctx context.Context) error {
	if err := e.p.policies.protect(ctx); err != nil {
		return err
	}
	if err := e.relabel(ctx, networkOpen); err != nil {
		return err
	}
	e.restricted = false
	return e.awaitNetwork(ctx, e.target, restrictTime)
}

// awaitNetwork waits until the pod reaches an address.
func (e *podEnv) awaitNetwork(ctx context.Context, address string, within time.Duration) error {
	reached, err := e.awaitReach(ctx, address, true, within)
	if err == nil && !reached {
		err = &environment.Error{Kind: environment.KindStart, Transient: true, Err: fmt.Errorf("%s was not reached within %s, although the pod may reach it", address, within)}
	}
	return err
}

// awaitReach waits until the pod reaches an address, or does not, as wanted, and reports whether it
// did in the end. Two attempts in a row must fail.
func (e *podEnv) awaitReach(ctx context.Context, address string, wanted bool, within time.Duration) (reached bool, err error) {
	limit, cancel := awake.WithTimeout(ctx, within)
	defer cancel()
	for row := 0; ; {
		attempt, done := context.WithTimeout(ctx, reachWait)
		reached, err = e.Reaches(attempt, address)
		done()
		if err != nil {
			return false, err
		}
		if reached != wanted {
			row = 0
		} else if row++; wanted || row == 2 {
			return reached, nil
		}
		if !awake.Sleep(limit, reachPause) {
			return reached, ctx.Err()
		}
	}
}

// awaitSilence waits until no connection is left that the guest can list. Policies as a rule do not
// end those that there are.
func (e *podEnv) awaitSilence(ctx context.Context) error {
	limit, cancel := awake.WithTimeout(ctx, connectionTime)
	defer cancel()
	for {
		open, err := e.Connections(ctx)
		if err != nil || len(open) == 0 {
			return err
		}
		if !awake.Sleep(limit, reachPause) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &environment.Error{
				Kind: environment.KindStart,
				Err:  fmt.Errorf("%s is still open, and this cluster does not close open connections when a NetworkPolicy forbids them", open[0]),
				Hint: "end the process that opened it, or give all phases the same network",
			}
		}
	}
}
