package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/podinit"
)

const (
	// cleanupGrace is how long the removal of something half-made may take.
	cleanupGrace = 10 * time.Second
	// createGrace is how long the answer to a creation is waited for that is not wanted any more.
	createGrace = 2 * time.Second
	// pullPatience is how long a node may try to pull an image that it cannot get for a reason that
	// may pass. It tries at once, and after 10, 20, 40 and 80 seconds.
	pullPatience = 2*time.Minute + 30*time.Second
	// nodeTime is how long a node may take to run a pod that it has: pulling a large image takes
	// minutes, and the cluster does not say that this is what a node does. quietTime is how much of
	// a wait is nothing to tell.
	nodeTime  = 30 * time.Minute
	quietTime = 10 * time.Second
)

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	return p.createWith(ctx, opts, nil)
}

// createWith creates an environment, with services unless g is nil.
func (p *Provider) createWith(ctx context.Context, opts environment.CreateOptions, g *group) (environment.Environment, error) {
	if err := checkNetwork(opts.Network); err != nil {
		return nil, err
	}
	if err := p.fits(opts.Limits); err != nil {
		return nil, err
	}
	image, err := p.settings(ctx, opts.Image)
	if err == nil {
		err = environment.CheckVolumes(image.Volumes)
	}
	if err != nil {
		return nil, err
	}
	helper, err := p.helperImage(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.findImages(ctx, p); err != nil {
		return nil, err
	}
	spec := podSpec{name: podName(opts.Labels), namespace: p.client.namespace, image: image.Ref, helper: helper, opts: opts, group: g}
	if opts.Network.Public() {
		err = p.policies.protect(ctx)
	} else {
		spec.target, err = p.proof.enforced(ctx, opts.Waiting)
	}
	if err != nil {
		return nil, err
	}
	pod, err := p.buildPod(spec)
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindStart, Err: err}
	}
	env := &podEnv{
		p: p, name: spec.name, namespace: spec.namespace, labels: opts.Labels, image: image, variables: len(opts.Env) > 0,
		limits: g.limits(opts.Limits), target: spec.target, restricted: !opts.Network.Public(), group: g,
	}
	err = p.startEarly(ctx, pod, opts.Waiting, env)
	defer env.early.drop()
	if err == nil && spec.target != "" {
		err = p.proof.standing(spec.target)
	}
	if err != nil {
		return nil, p.discard(ctx, pod, err)
	}
	env.since = time.Now()
	run := podinit.Options{Image: guestImage(image), Env: opts.Env, Files: opts.Files, Network: opts.Network, Explain: env.explain}
	if g == nil {
		env.inContainer, err = p.begin(ctx, env.dial, run)
	} else {
		err = g.begin(ctx, env, run)
	}
	if err != nil {
		return nil, p.discard(ctx, pod, err)
	}
	go env.watchOver()
	return env, nil
}

// start creates a pod and waits until its main container runs.
func (p *Provider) start(ctx context.Context, pod *corev1.Pod, tell func(string)) error {
	return p.startEarly(ctx, pod, tell, nil)
}

// startEarly creates a pod and waits until its main container runs, or, unless env is nil, until
// there is a connection to its guest.
func (p *Provider) startEarly(ctx context.Context, pod *corev1.Pod, tell func(string), env *podEnv) error {
	if err := ctx.Err(); err != nil {
		return failed(environment.KindStart, "create pod", err)
	}
	w := &waitLine{tell: tell}
	defer w.say("")
	p.watch.follow(ctx, pod.Name)
	if err := p.create(ctx, pod, w); err != nil {
		return err
	}
	return p.await(ctx, pod.Name, w, env)
}

// create creates a pod. Names are unique, so that a pod of this name is the one of an attempt whose
// answer was lost.
func (p *Provider) create(ctx context.Context, pod *corev1.Pod, w *waitLine) error {
	full, young := newDeadline(p.config.scheduleTimeout), newDeadline(p.youngTime)
	timers, done := context.WithCancel(ctx)
	defer done()
	var place *quotaPlace
	for {
		seen := p.quota.signal()
		made, err := p.createOnce(ctx, pod)
		if isYoung(err) && p.config.serviceAccount == "" && !isClosed(young.run(timers)) {
			w.say("waits for the service account of the namespace")
			if awake.Sleep(ctx, time.Second) {
				continue
			}
			err = ctx.Err()
		}
		switch {
		case err == nil:
			p.watch.learn(made)
			return nil
		case !isQuota(err):
			return p.notCreated(pod, err)
		case place != nil && isClosed(full.run(timers)):
			return &environment.Error{Kind: environment.KindResources, Hint: "raise the quota, or lower n_concurrent_trials",
				Err: fmt.Errorf("no place in the namespace's quota within %s: %w", p.config.scheduleTimeout, err)}
		}
		w.say("waits for a place in the namespace's quota: " + oneLine(err.Error()))
		if place == nil {
			place = p.quota.join(seen)
			defer p.quota.leave(place) //nolint:gocritic // once
		} else {
			p.quota.refused(place, seen)
		}
		if err := p.quota.turn(ctx, place, full.run(timers)); err != nil {
			return failed(environment.KindStart, "create pod", err)
		}
	}
}

// createOnce creates a pod. A request in flight when ctx ends gets a moment to complete, because a
// pod that the server creates after its deletion was requested would be left behind.
func (p *Provider) createOnce(ctx context.Context, pod *corev1.Pod) (made *corev1.Pod, err error) {
	longer, done := withGrace(ctx)
	defer done()
	err = persist(ctx, func() error {
		made, err = p.client.createPod(longer, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = p.client.getPod(longer, pod.Namespace, pod.Name)
		}
		return err
	})
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return made, err
}

// withGrace returns a context that ends createGrace after ctx does.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(createGrace):
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// isQuota reports whether a pod was refused because a quota is used up. The API has no other sign
// of it than the words of the quota's admission plugin. Source: Kubernetes,
// resourcequota/controller.go.
func isQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// refusalHint returns a remedy for a pod that was refused; "" if none is known. The API tells by
// its words alone whether RBAC, the end of the namespace or an admission plugin refuses. Source:
// Kubernetes, apiserver/pkg/endpoints/handlers/responsewriters/errors.go, and the plugin
// NamespaceLifecycle.
func refusalHint(err error) string {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "the namespace is being deleted: wait until it is gone, create it anew, or set namespace in provider_config"
	case apierrors.IsForbidden(err) && rbacRefusal.MatchString(err.Error()):
		return "the permission is gone: see that the role and its binding in docs/providers/kubernetes.md are there"
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return "the cluster does not admit such pods: see provider_config"
	}
	return ""
}

// rbacRefusal matches the API server's message for a user without permission.
var rbacRefusal = regexp.MustCompile(`User ".*" cannot [a-z]+ resource`)

// isYoung reports whether a pod was refused because the namespace is so new that its service
// account is not there yet.
// Source: Kubernetes, the plugin ServiceAccount.
func isYoung(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account") && strings.Contains(err.Error(), "not found")
}

// youngTime is how long a namespace may lack the service account.
const youngTime = 30 * time.Second

// notCreated returns the error of a pod that the API server has refused.
func (p *Provider) notCreated(pod *corev1.Pod, err error) error {
	err = failed(environment.KindStart, "create pod in namespace "+pod.Namespace, err)
	var e *environment.Error
	if errors.As(err, &e) && e.Hint == "" {
		switch {
		case apierrors.IsNotFound(err):
			e.Hint = "create the namespace, or set namespace in provider_config"
		default:
			e.Hint = refusalHint(err)
		}
	}
	return err
}

// await waits until a pod's main container runs, or, unless env is nil, until there is a connection
// to its guest.
func (p *Provider) await(ctx context.Context, name string, w *waitLine, env *podEnv) error {
	unscheduled, pulling := newDeadline(p.config.scheduleTimeout), newDeadline(pullPatience)
	onNode, quiet := newDeadline(p.nodeTime), newDeadline(p.quietTime)
	timers, done := context.WithCancel(ctx)
	defer done()
	slow := false
	var reached <-chan bool
	for {
		now, known := p.watch.look(name)
		if !known || now.gone {
			return &environment.Error{Kind: environment.KindStart, Transient: true, Err: fmt.Errorf("pod %s was deleted before it ran", name)}
		}
		if now.unsure {
			if err := p.ask(ctx, name); err != nil {
				return err
			}
			continue
		}
		s := starting{queued: true, brief: true, waits: "waits for the API server"}
		if now.pod != nil {
			s = startOf(now.pod)
		}
		if s.err != nil || s.runs {
			return s.err
		}
		if env != nil && reached == nil && s.err == nil && now.pod != nil && aboutToRun(now.pod) {
			var end func()
			reached, end = env.early.begin(ctx, env.connect)
			defer end() //nolint:gocritic // once
		}
		var limit, loud <-chan struct{}
		switch {
		case s.pulling != nil:
			limit = pulling.run(timers)
		case s.gated:
			unscheduled.stop()
		case s.queued:
			limit = unscheduled.run(timers)
		default:
			unscheduled.stop()
			limit = onNode.run(timers)
		}
		if s.brief && !slow {
			loud = quiet.run(timers)
			w.say("")
		} else {
			w.say(s.waits)
		}
		select {
		case <-reached:
			return nil
		case <-now.changed:
		case <-loud:
			slow = true
		case <-limit:
			if s.pulling != nil {
				return s.pulling
			}
			if !s.queued {
				return &environment.Error{Kind: environment.KindStart, Transient: true, Err: fmt.Errorf("pod %s did not run within %s: it %s", name, p.nodeTime, s.waits)}
			}
			return &environment.Error{
				Kind: environment.KindResources, Err: fmt.Errorf("no node took pod %s within %s (Unschedulable): it %s", name, p.config.scheduleTimeout, s.waits),
				Hint: "raise schedule_timeout if the cluster grows slowly; change the task's limits, node_selector or tolerations if no node can fit",
			}
		case <-ctx.Done():
			return failed(environment.KindStart, "wait for pod "+name+", which "+s.waits, context.Cause(ctx))
		}
	}
}

// ask asks the API server about a pod that a list has not had.
func (p *Provider) ask(ctx context.Context, name string) error {
	pod, err := p.client.getPod(ctx, p.client.namespace, name)
	switch {
	case err == nil:
		p.watch.learn(pod)
	case apierrors.IsNotFound(err):
		p.watch.learnGone(name)
	default:
		return failed(environment.KindStart, "look for pod "+name, err)
	}
	return nil
}

// discard removes the remains of a failed creation and returns its error.
func (p *Provider) discard(ctx context.Context, pod *corev1.Pod, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if err := p.remove(ctx, pod.Namespace, pod.Name); err != nil {
		return fmt.Errorf("%w; and then: %w", failure, err)
	}
	return failure
}

// remove deletes a pod. One that is not there is no error.
func (p *Provider) remove(ctx context.Context, namespace, name string) error {
	err := p.client.deletePod(ctx, namespace, name)
	p.watch.forget(name)
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return failed(environment.KindTeardown, "delete pod "+name, err)
}

// waitLine reports to a caller why a creation waits, each reason once.
type waitLine struct {
	tell func(string)
	last string
}

// say reports a reason for waiting that others decide about; "" ends the wait.
func (w *waitLine) say(reason string) {
	if w.tell != nil && reason != w.last {
		w.tell(reason)
	}
	w.last = reason
}

// deadline is a time limit that can be paused.
type deadline struct {
	left   time.Duration
	since  time.Time
	expiry <-chan struct{}
	cancel context.CancelFunc
}

func newDeadline(d time.Duration) *deadline { return &deadline{left: d} }

// run starts or resumes the deadline and returns a channel that is closed when it expires.
func (d *deadline) run(ctx context.Context) <-chan struct{} {
	if d.expiry == nil {
		ctx, cancel := context.WithCancel(ctx)
		d.since, d.cancel, d.expiry = time.Now(), cancel, awake.After(ctx, d.left)
	}
	return d.expiry
}

// stop pauses the deadline.
func (d *deadline) stop() {
	if d.expiry != nil {
		d.cancel()
		d.left -= time.Since(d.since)
		d.expiry = nil
	}
}

// isClosed reports whether a channel is closed on which nothing is sent.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
