package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/kubernetes/internal/probe"
)

// enforcement is the proof that the cluster enforces network policies. It has a listening pod,
// which a pod without restrictions has reached and a restricted one has not. Each restricted pod of
// a trial must fail to reach it, too, before anything runs in the pod, while the node of the
// listening pod reports that it answers. Both pods of the proof also try the other targets
// (probe.Target). A pod that is restricted later has reached the listening pod before. One that
// begins restricted has not: beginning without restrictions would cost it seconds, and an
// unrestricted pod on each node would need room that trials may have taken.
type enforcement struct {
	p       *Provider    // creates, watches and removes the pods
	address once[string] // of the pod that listens

	mu      sync.Mutex
	pods    []string // those that were created
	refused error    // the cluster does not enforce policies
	found   findings // of the last proof that was complete
}

// ProveNetworks implements environment.CreationChecker.
func (p *Provider) ProveNetworks(ctx context.Context, progress func(string)) error {
	if progress != nil {
		progress("proving that the cluster restricts networks")
	}
	_, err := p.proof.enforced(ctx, func(reason string) {
		if reason != "" && progress != nil {
			progress("the proof that networks are restricted " + reason)
		}
	})
	if err == nil && progress != nil {
		p.proof.mu.Lock()
		found := p.proof.found
		p.proof.mu.Unlock()
		progress(found.says(p.config.reachable))
	}
	return err
}

// enforced returns the address that no restricted pod must reach. It fails if the cluster does not
// have, or does not enforce, the policy. tell receives the reasons for waiting.
func (e *enforcement) enforced(ctx context.Context, tell func(string)) (string, error) {
	address, err := e.address.get(ctx, tell, e.prove)
	if err != nil {
		return "", wrapped(environment.KindStart, "restrict the network", err)
	}
	return address, nil
}

// prove makes the proof and returns the address of the pod that listens.
func (e *enforcement) prove(ctx context.Context, tell func(string)) (string, error) {
	e.mu.Lock()
	refused := e.refused
	e.mu.Unlock()
	if refused != nil {
		return "", refused
	}
	if err := e.p.policies.ensure(ctx); err != nil {
		return "", err
	}
	helper, err := e.p.helperImage(ctx)
	if err != nil {
		return "", err
	}
	e.dropAll(ctx)
	target := e.p.probePod(roleTarget, helper, probe.Listen, fmt.Sprintf(":%d", targetPort))
	if err := e.start(ctx, target, tell); err != nil {
		return "", err
	}
	var addresses []string
	if now, _ := e.p.watch.look(target.Name); now.pod != nil {
		addresses = targetAddresses(now.pod)
	}
	if len(addresses) == 0 {
		return "", &environment.Error{Kind: environment.KindStart, Transient: true, Err: fmt.Errorf("pod %s has no address", target.Name)}
	}
	// That the restricted pod reaches nothing shows something only while the target answers, and if
	// another one reaches it.
	if err := e.answers(ctx, target.Name); err != nil {
		return "", err
	}
	found, err := e.probes(ctx, helper, strings.Join(addresses, ","), tell)
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	e.found = found
	e.mu.Unlock()
	return addresses[0], e.answers(ctx, target.Name)
}

// probes runs a pod without restrictions and a restricted one at the same time. Both try all
// targets.
func (e *enforcement) probes(ctx context.Context, helper, addresses string, tell func(string)) (findings, error) {
	var both sync.WaitGroup
	errs, seen := make([]error, 2), make([]probe.Seen, 2)
	telling := sync.Mutex{}
	allHosts := e.p.client.tellsHosts(ctx)
	for i, what := range []string{probe.Open, probe.Denied} {
		both.Go(func() {
			seen[i], errs[i] = e.probe(ctx, e.p.proofPod(helper, what, addresses, allHosts), what, func(reason string) {
				telling.Lock()
				defer telling.Unlock()
				if tell != nil {
					tell(reason)
				}
			})
		})
	}
	both.Wait()
	for _, err := range errs {
		if err != nil {
			return findings{}, err
		}
	}
	return compareSeen(seen[0], seen[1])
}

// answers waits until the node reports that a listening pod answers.
func (e *enforcement) answers(ctx context.Context, name string) error {
	limit, cancel := awake.WithTimeout(ctx, restrictTime)
	defer cancel()
	for {
		now, known := e.p.watch.look(name)
		switch {
		case !known || now.gone:
			return lost(true, "pod %s was deleted", name)
		case now.unsure:
			if err := e.p.ask(ctx, name); err != nil {
				return err
			}
			continue
		case isReady(now):
			return nil
		}
		select {
		case <-now.changed:
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &environment.Error{Kind: environment.KindStart, Transient: true,
				Err: fmt.Errorf("the network cannot be tested: the node of pod %s does not say that it is ready, although another pod has reached it", name)}
		}
	}
}

// isReady reports whether a pod exists and its node reports that it answers.
func isReady(now tracked) bool {
	return !now.gone && now.pod != nil && startOf(now.pod).runs && slices.ContainsFunc(now.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// probe has a pod show that it reaches an address, or that a restricted one does not, and returns
// its findings.
func (e *enforcement) probe(ctx context.Context, pod *corev1.Pod, what string, tell func(string)) (seen probe.Seen, err error) {
	defer e.drop(ctx, pod.Name)
	if err = e.start(ctx, pod, tell); err == nil {
		seen, err = e.ended(ctx, pod.Name, what)
	}
	if errors.Is(err, errNotEnforced) {
		e.mu.Lock()
		e.refused = err
		e.mu.Unlock()
	}
	return seen, err
}

// start creates a pod of the proof and waits until it runs.
func (e *enforcement) start(ctx context.Context, pod *corev1.Pod, tell func(string)) error {
	e.mu.Lock()
	e.pods = append(e.pods, pod.Name)
	e.mu.Unlock()
	err := e.p.start(ctx, pod, tell)
	if now, known := e.p.watch.look(pod.Name); err != nil && known && now.pod != nil {
		for _, c := range now.pod.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && slices.Contains([]int32{0, probe.Unmet, probe.Leak}, t.ExitCode) {
				return nil // it was not seen to run, but has an answer
			}
		}
	}
	if err != nil {
		e.drop(ctx, pod.Name)
	}
	return err
}

// ended waits until a pod has finished the probe what, and returns its findings.
func (e *enforcement) ended(ctx context.Context, name, what string) (probe.Seen, error) {
	for {
		now, known := e.p.watch.look(name)
		if !known || now.gone || now.pod == nil {
			return probe.Seen{}, lost(true, "pod %s was deleted", name)
		}
		if now.unsure {
			if err := e.p.ask(ctx, name); err != nil {
				return probe.Seen{}, err
			}
			continue
		}
		for _, c := range now.pod.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil {
				return judge(t, what)
			}
		}
		if err := endOf(now.pod); err != nil {
			return probe.Seen{}, err
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return probe.Seen{}, ctx.Err()
		}
	}
}

// judge returns what a pod of the proof found, after it has ended.
func judge(t *corev1.ContainerStateTerminated, what string) (probe.Seen, error) {
	seen, told := probe.ReadSeen(t.Message)
	switch {
	case t.ExitCode == 0 && told:
		return seen, nil
	case t.ExitCode == 0:
		return seen, untested("the probe did not answer: its message is lost" + colon(t.Message))
	case t.ExitCode == probe.Unmet && what == probe.Denied:
		return seen, notEnforced(t.Message)
	case t.ExitCode == probe.Leak && what == probe.Denied:
		return seen, leaks(seen.Reached)
	case t.ExitCode == probe.Unmet:
		return seen, untested("without restrictions, a pod cannot reach another one" + orSilence(t.Message))
	}
	return seen, untested(fmt.Sprintf("the probe ended with exit code %d", t.ExitCode) + orSilence(t.Message))
}

// orSilence returns a message after a colon, or a substitute if the message is lost.
func orSilence(message string) string {
	return cmp.Or(colon(message), " and did not say why")
}

// untested is the error for a proof that shows nothing.
func untested(why string) error {
	return &environment.Error{Kind: environment.KindStart, Transient: true, Err: errors.New("the network cannot be tested: " + why)}
}

// drop removes a pod of the proof.
func (e *enforcement) drop(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if e.p.remove(ctx, e.p.client.namespace, name) != nil {
		return // Close tries again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods = slices.DeleteFunc(e.pods, func(other string) bool { return other == name })
}

// dropAll removes all pods of the proof.
func (e *enforcement) dropAll(ctx context.Context) {
	e.mu.Lock()
	pods := slices.Clone(e.pods)
	e.mu.Unlock()
	for _, name := range pods {
		e.drop(ctx, name)
	}
}

// close removes the pods of the proof, and reports those that stay.
func (e *enforcement) close() error {
	e.dropAll(context.Background())
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pods) > 0 {
		return &environment.Error{Kind: environment.KindTeardown, Err: fmt.Errorf("pods were not deleted: %s", strings.Join(e.pods, ", "))}
	}
	return nil
}

// standing returns an error if the pod at an address no longer answers, because failing to reach it
// then proves nothing.
func (e *enforcement) standing(address string) error {
	e.mu.Lock()
	pods := slices.Clone(e.pods)
	e.mu.Unlock()
	for _, name := range pods {
		now, known := e.p.watch.look(name)
		if known && isReady(now) && slices.Contains(targetAddresses(now.pod), address) {
			return nil
		}
	}
	e.address.forget(address)
	return &environment.Error{
		Kind: environment.KindStart, Transient: true,
		Err: errors.New("the pod that restricted pods must not reach is gone or does not answer, so that nothing shows that the network is restricted"),
	}
}

// targetAddresses returns where a pod listens, the address that all restricted pods try first; none
// if it has no address.
func targetAddresses(pod *corev1.Pod) (all []string) {
	for _, ip := range append([]corev1.PodIP{{IP: pod.Status.PodIP}}, pod.Status.PodIPs...) {
		address := net.JoinHostPort(ip.IP, strconv.Itoa(targetPort))
		if ip.IP != "" && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

var errNotEnforced = errors.New("the cluster does not enforce NetworkPolicies")

// notEnforced is the error for a cluster that does not enforce policies.
func notEnforced(words string) error {
	return &environment.Error{
		Kind: environment.KindStart, Err: fmt.Errorf("%w: a pod that must reach nothing reaches another pod%s", errNotEnforced, colon(words)),
		Hint: "use a cluster whose network enforces them, such as with Calico or Cilium, or set environment.network: public",
	}
}

// acceptable are the kinds of targets that provider_config.reachable may name. The others lead out
// of the cluster, or to credentials.
var acceptable = []string{probe.Node, probe.API}

// kinds are the kinds of targets in words.
var kinds = map[string]string{
	probe.NameServer: "the name server", probe.API: "the API service", probe.Metadata: "the metadata service", probe.Node: "its node",
	probe.Pod: "another address of another pod",
}

// kindOrder is the order in which kinds of targets are listed.
var kindOrder = []string{probe.Pod, probe.NameServer, probe.API, probe.Metadata, probe.Node}

// listTargets names targets by their kinds, after something else unless that is "".
func listTargets(first string, all []probe.Target) string {
	var words []string
	if first != "" {
		words = append(words, first)
	}
	for _, kind := range kindOrder {
		var addresses []string
		for _, t := range all {
			switch {
			case t.Kind != kind:
			case t.Protocol == "udp":
				addresses = append(addresses, t.Address+"/udp")
			default:
				addresses = append(addresses, t.Address)
			}
		}
		if len(addresses) > 0 {
			words = append(words, kinds[kind]+" ("+strings.Join(addresses, ", ")+")")
		}
	}
	return oneLine(strings.Join(words, ", "))
}

// leaks is the error for a cluster that keeps a restricted pod from other pods, but not from all
// targets.
func leaks(reached []probe.Target) error {
	if len(reached) == 0 {
		return &environment.Error{
			Kind: environment.KindStart, Hint: "see provider_config.reachable, or set environment.network: public",
			Err: fmt.Errorf("%w for everything: a pod that must reach nothing reaches something, and the probe did not answer what: its message is lost", errNotEnforced),
		}
	}
	accept := []string{}
	for _, kind := range acceptable {
		if slices.ContainsFunc(reached, func(t probe.Target) bool { return t.Kind == kind }) {
			accept = append(accept, kind)
		}
	}
	hint := "have the cluster's network forbid it, such as with a host endpoint of Calico or a policy for the whole cluster"
	if !slices.ContainsFunc(reached, func(t probe.Target) bool { return !slices.Contains(acceptable, t.Kind) }) {
		hint += ", accept it with environment.provider_config.reachable: [" + strings.Join(accept, ", ") + "]"
	}
	return &environment.Error{
		Kind: environment.KindStart, Err: fmt.Errorf("%w for everything: a pod that must reach nothing reaches %s", errNotEnforced, listTargets("", reached)),
		Hint: hint + ", or set environment.network: public",
	}
}

// proofPod returns a pod of the proof that tries targets. allHosts: the cluster tells pods all
// addresses of their node.
func (p *Provider) proofPod(helper, what, addresses string, allHosts bool) *corev1.Pod {
	pod := p.probePod(roleProbe, helper, what, addresses)
	from := func(variable, field string) corev1.EnvVar {
		return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}}
	}
	env := []corev1.EnvVar{from(probe.NodeVariable, "status.hostIP"), {Name: probe.AcceptedVariable, Value: strings.Join(p.config.reachable, ",")}}
	if allHosts {
		env = append(env, from(probe.NodesVariable, "status.hostIPs"))
	}
	pod.Spec.Containers[0].Env = env
	return pod
}

// probePod returns a pod of the proof.
func (p *Provider) probePod(as, helper, what, address string) *corev1.Pod {
	l := environment.Labels{Trial: as, Owner: environment.Self()} // no job: all trials of the run share the proof
	volume := corev1.VolumeMount{Name: guestVolume, MountPath: podinit.Dir}
	spec := p.config.commonSpec()
	spec.InitContainers = []corev1.Container{{
		Name: installContainer, Image: helper, Command: []string{"/" + podinit.Installer, podinit.Dir},
		ImagePullPolicy: corev1.PullIfNotPresent, Resources: probeResources, VolumeMounts: []corev1.VolumeMount{volume},
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true)},
	}}
	main := probeWith(helper, probeResources, what, address)
	main.Name = mainContainer
	if what == probe.Listen {
		main.ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(targetPort)}}, PeriodSeconds: 1,
		}
	}
	spec.Containers = []corev1.Container{main}
	spec.Volumes = []corev1.Volume{{Name: guestVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	spec.ActiveDeadlineSeconds = new(seconds(probeLifetime))
	network := environment.Network{}
	if what == probe.Denied {
		network.Mode = environment.NetworkNone
	}
	labels := p.podLabels(l, as, network)
	if network.Public() {
		labels[labelNetwork] = networkProof
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(l), Namespace: p.client.namespace,
			Labels: labels, Annotations: p.podAnnotations(l),
			OwnerReferences: p.owner,
		},
		Spec: spec,
	}
}

// probeLifetime is how long the pods of the proof of a run that was killed may stay.
const probeLifetime = 24 * time.Hour

// probeResources are enough to listen, and little.
var probeResources = resources(environment.Limits{MilliCPUs: 100, Memory: 128 << 20})

// probeInit returns the init container that waits until the network is restricted.
func probeInit(helper string, limits corev1.ResourceRequirements, address string) corev1.Container {
	return probeWith(helper, limits, probeClosed, address)
}

func probeWith(helper string, limits corev1.ResourceRequirements, what, address string) corev1.Container {
	return corev1.Container{
		Name: probeContainer, Image: helper, Command: []string{probePath, what, address},
		ImagePullPolicy: corev1.PullIfNotPresent, Resources: limits,
		// The name of the file is what makes the program a probe.
		VolumeMounts:    []corev1.VolumeMount{{Name: guestVolume, MountPath: probePath, SubPath: path.Base(podinit.Program), ReadOnly: true}},
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false)},
	}
}
