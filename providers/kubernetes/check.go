package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/rollout-action/internal/environment"
)

// connectTimeout bounds the first contact.
const connectTimeout = 30 * time.Second

// permission is something that Rollout does.
type permission struct {
	group, resource string
	verbs           []string
	// optional: Rollout works without it.
	optional bool
}

// permissions are all that Rollout does. A WebSocket's request is a GET, and SPDY's a POST; servers from 1.35 on want create for
// both.
var permissions = []permission{
	{resource: "pods", verbs: []string{"create", "get", "list", "watch", "patch", "delete"}},
	{resource: "pods/exec", verbs: []string{"create", "get"}},
	{group: "networking.k8s.io", resource: "networkpolicies", verbs: []string{"list", "create"}, optional: true},
	{resource: "resourcequotas", verbs: []string{"list"}, optional: true},
	{resource: "limitranges", verbs: []string{"list"}, optional: true},
}

// check returns why the cluster cannot be used, in one sentence, or nil.
func (p *Provider) check(ctx context.Context) error {
	if p.options.Clean {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	missing, err := p.missing(limited)
	if err != nil {
		return p.unreachable(ctx, err)
	}
	if len(missing) > 0 {
		return &environment.Error{
			Kind: environment.KindUnavailable, Output: role(p.client.namespace),
			Err:  fmt.Errorf("use %s: this user may not %s in namespace %s", p.about, strings.Join(missing, ", "), p.client.namespace),
			Hint: "ask for the role below",
		}
	}
	if err := p.followNodes(limited); err != nil {
		return err
	}
	if err := p.rehearse(limited); err != nil {
		return err
	}
	p.readCapacity(limited)
	return nil
}

// missing returns what this user may not do, as "create pods/exec".
func (p *Provider) missing(ctx context.Context) ([]string, error) {
	type question struct {
		permission
		verb string
	}
	var asked []question
	for _, need := range permissions {
		for _, verb := range need.verbs {
			if !need.optional {
				asked = append(asked, question{need, verb})
			}
		}
	}
	missing, errs := make([]string, len(asked)), make([]error, len(asked))
	var all sync.WaitGroup
	for i, q := range asked {
		all.Go(func() {
			resource, sub, _ := strings.Cut(q.resource, "/")
			ok, err := p.client.allowed(ctx, authorizationv1.ResourceAttributes{
				Namespace: p.client.namespace, Verb: q.verb, Group: q.group, Resource: resource, Subresource: sub,
			})
			if errs[i] = err; !ok {
				missing[i] = q.verb + " " + q.resource
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(missing, func(what string) bool { return what == "" }), nil
}

// role returns the role that Rollout needs, as YAML.
func role(namespace string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: rollout, namespace: %s}\nrules:\n", namespace)
	for _, need := range permissions {
		fmt.Fprintf(&b, "  - {apiGroups: [%q], resources: [%s], verbs: [%s]}\n", need.group, need.resource, strings.Join(need.verbs, ", "))
	}
	return b.String()
}

// unreachable returns the error of a first contact that failed.
func (p *Provider) unreachable(ctx context.Context, err error) error {
	err = failed(environment.KindUnavailable, "connect to "+p.about, err)
	var e *environment.Error
	if errors.As(err, &e) && e.Hint == "" && ctx.Err() == nil {
		e.Kind = environment.KindUnavailable
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			e.Err = fmt.Errorf("connect to %s: it did not answer within %s", p.about, connectTimeout)
			e.Transient, e.Hint = true, "see kubectl cluster-info"
		case apierrors.IsForbidden(err):
			e.Hint = "the credentials of this context may not even ask what they may do"
		default:
			e.Hint = "see kubectl cluster-info, or choose another context or environment.type"
		}
	}
	return err
}

// rehearse has the cluster check a pod like those of trials, without creating it.
func (p *Provider) rehearse(ctx context.Context) error {
	labels := environment.Labels{Job: "check", Owner: environment.Self()}
	pod, err := p.buildPod(podSpec{
		name: podName(labels), namespace: p.client.namespace, image: "rollout/check", helper: "rollout/check",
		opts: environment.CreateOptions{Labels: labels},
	})
	if err != nil {
		return &environment.Error{Kind: environment.KindUnavailable, Err: err}
	}
	err = persist(ctx, func() error {
		_, err := p.client.createPod(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return unavailable("create it, or set namespace in provider_config", "use %s: there is no namespace %s: %w", p.about, p.client.namespace, err)
	case apierrors.IsInvalid(err):
		return unavailable("see provider_config", "use %s: such pods are not valid there: %w", p.about, err)
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "quota"): // quotas depend on a trial's limits
		return unavailable("see provider_config, and the policies of the namespace", "use %s: it does not admit such pods: %w", p.about, err)
	case err != nil && (isConnection(err) || isContext(err) || apierrors.IsUnauthorized(err)):
		return p.unreachable(ctx, err)
	}
	return nil // others may be about the rehearsal alone: webhooks need not support one
}
