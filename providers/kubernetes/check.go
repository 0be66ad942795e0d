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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/rollout-action/internal/core/environment"
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

// permissions are all that Rollout does. A WebSocket's request is a GET, and SPDY's a POST; servers
// from 1.35 on want create for both.
var permissions = []permission{
	{resource: "pods", verbs: []string{"create", "get", "list", "watch", "patch", "delete"}},
	{resource: "pods/exec", verbs: []string{"create", "get"}},
	{group: "networking.k8s.io", resource: "networkpolicies", verbs: []string{"list", "create"}, optional: true},
	{resource: "resourcequotas", verbs: []string{"list", "watch"}, optional: true},
	{resource: "limitranges", verbs: []string{"list"}, optional: true},
}

// check returns why the cluster cannot be used, in one sentence, or nil.
func (p *Provider) check(ctx context.Context) error {
	if p.options.Clean {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	to := access{p.client, p.about}
	missing, all, err := to.missing(limited)
	if err != nil {
		return to.unreachable(ctx, err)
	}
	if len(missing) > 0 {
		return to.refused(limited, missing, all)
	}
	if err := p.followNodes(limited); err != nil {
		return err
	}
	if err := p.rehearse(limited, to); err != nil {
		return err
	}
	if p.config.helperImage == "" && p.config.registry == "" && p.options.HelperImage == "" {
		return errNoHelper
	}
	p.readCapacity(limited)
	return nil
}

// access finds out whether this user may do in a namespace all that Rollout does.
type access struct {
	client *client
	about  string // the cluster, for messages
}

// refused returns the error of a user who lacks permissions, perhaps all of them. Those who have
// none in a namespace may have misspelled it, and not every user may ask whether it exists.
func (a access) refused(ctx context.Context, missing []string, all bool) error {
	namespace, what := a.client.namespace, strings.Join(missing, ", ")
	e := &environment.Error{
		Kind: environment.KindUnavailable, Refused: true, Output: role(namespace), Hint: "ask for the role in docs/providers/kubernetes.md",
		Err: fmt.Errorf("use %s: this user may not %s in namespace %s", a.about, what, namespace),
	}
	switch err := a.client.findNamespace(ctx); {
	case apierrors.IsNotFound(err):
		return a.noNamespace()
	case err != nil && all:
		e.Err = fmt.Errorf("use %s: there is no namespace %s, or this user may do nothing in it (%s)", a.about, namespace, what)
		e.Hint = "check the name, or ask for the role in docs/providers/kubernetes.md"
	}
	return e
}

func (a access) noNamespace() error {
	return unusable("create it, or set namespace in provider_config", "use %s: there is no namespace %s", a.about, a.client.namespace)
}

// missing returns the permissions that this user lacks, as "create pods/exec", and whether those
// are all that Rollout needs.
func (a access) missing(ctx context.Context) (missing []string, all bool, err error) {
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
	missing = make([]string, len(asked))
	errs := make([]error, len(asked))
	var answers sync.WaitGroup
	for i, q := range asked {
		answers.Go(func() {
			resource, sub, _ := strings.Cut(q.resource, "/")
			ok, err := a.client.allowed(ctx, authorizationv1.ResourceAttributes{
				Namespace: a.client.namespace, Verb: q.verb, Group: q.group, Resource: resource, Subresource: sub,
			})
			if errs[i] = err; !ok {
				missing[i] = q.verb + " " + q.resource
			}
		})
	}
	answers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, false, err
		}
	}
	missing = slices.DeleteFunc(missing, func(what string) bool { return what == "" })
	return missing, len(missing) == len(asked), nil
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
func (a access) unreachable(ctx context.Context, err error) error {
	err = failed(environment.KindUnavailable, "connect to "+a.about, err)
	var e *environment.Error
	if errors.As(err, &e) && e.Hint == "" && ctx.Err() == nil {
		e.Kind = environment.KindUnavailable
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			e.Err = fmt.Errorf("connect to %s: it did not answer within %s", a.about, connectTimeout)
			e.Transient, e.Hint = true, "see kubectl cluster-info"
		case apierrors.IsForbidden(err):
			e.Hint = "the credentials of this context may not ask for their own permissions"
		default:
			e.Hint = "see kubectl cluster-info, or choose another context or environment.type"
		}
	}
	return err
}

// rehearse has the cluster check a pod like those of trials, without creating it.
func (p *Provider) rehearse(ctx context.Context, to access) error {
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
		return to.noNamespace()
	case apierrors.IsInvalid(err):
		return unusable("see provider_config", "use %s: such pods are not valid there: %w", p.about, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return unavailable(refusalHint(err), "use %s: namespace %s is being deleted", p.about, p.client.namespace)
	case isYoung(err) && p.config.serviceAccount == "":
		return nil // it comes a moment after the namespace, and pods wait for it
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "quota"): // quotas depend on a trial's limits
		return unusable("see provider_config, and the policies of the namespace", "use %s: it does not admit such pods: %w", p.about, err)
	case err != nil && (isConnection(err) || isContext(err) || apierrors.IsUnauthorized(err)):
		return to.unreachable(ctx, err)
	}
	return nil // others may be about the rehearsal alone: webhooks need not support one
}
