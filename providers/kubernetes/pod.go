package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// Names in a pod.
const (
	mainContainer    = "main"            // the trial's
	installContainer = "rollout-install" // copies Rollout's program to the volume
	probeContainer   = "rollout-network" // waits until the network is restricted
	guestVolume      = "rollout"
)

const (
	// installMemory is what copying Rollout's program needs at least, however small the limit of
	// the trial is.
	installMemory = 64 << 20
	// storageOverhead is what a pod gets on top of the limit of its trial, for Rollout's program.
	storageOverhead = 192 << 20
)

// podSpec describes a pod to build.
type podSpec struct {
	name, namespace string
	image, helper   string // references
	opts            environment.CreateOptions
	group           *group
	target          string // the address that a restricted pod must not reach; "" if the pod is not restricted
}

// buildPod returns the pod of an environment.
func (p *Provider) buildPod(s podSpec) (*corev1.Pod, error) {
	limits, least := resources(s.opts.Limits), s.opts.Limits
	if least.Memory > 0 {
		least.Memory = max(least.Memory, installMemory)
	}
	least.GPUs = 0
	before := resources(least) // of the containers that end before the trial's starts
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: s.name, Namespace: s.namespace,
			Labels: p.podLabels(s.opts.Labels, roleTrial, s.opts.Network), Annotations: p.podAnnotations(s.opts.Labels),
			OwnerReferences: p.owner,
		},
		Spec: p.config.commonSpec(),
	}
	spec := &pod.Spec
	volume := corev1.VolumeMount{Name: guestVolume, MountPath: podinit.Dir}
	install := corev1.Container{
		Name: installContainer, Image: s.helper, Command: []string{"/" + podinit.Installer, podinit.Dir},
		ImagePullPolicy: corev1.PullIfNotPresent, Resources: before, VolumeMounts: []corev1.VolumeMount{volume},
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true)},
	}
	spec.InitContainers = []corev1.Container{install}
	if s.target != "" {
		spec.InitContainers = append(spec.InitContainers, probeInit(s.helper, before, s.target))
	}
	volume.ReadOnly = true
	spec.Containers = []corev1.Container{{
		// The guest makes the image's own working directory: runtimes fail if it is a link to one
		// that is missing.
		Name: mainContainer, Image: s.image, Command: []string{podinit.Program}, WorkingDir: "/",
		ImagePullPolicy: corev1.PullIfNotPresent, Resources: limits, VolumeMounts: []corev1.VolumeMount{volume},
		// The guest starts processes as the image's user; an agent may use sudo.
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), RunAsNonRoot: new(false), Privileged: new(false)},
	}}
	spec.Volumes = []corev1.Volume{{Name: guestVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	s.group.extend(pod, s.opts.Limits, before, volume)
	if s.opts.Lifetime > 0 {
		spec.ActiveDeadlineSeconds = new(seconds(s.opts.Lifetime))
	}
	return p.config.patched(pod)
}

// commonSpec returns the part of the spec that all pods of a configuration share.
func (c config) commonSpec() corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(0)),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		SecurityContext:               &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:                   c.tolerations,
		PriorityClassName:             c.priorityClass,
		ServiceAccountName:            c.serviceAccount,
	}
	spec.NodeSelector[corev1.LabelArchStable] = c.architecture()
	maps.Copy(spec.NodeSelector, c.nodeSelector)
	if c.runtimeClass != "" {
		spec.RuntimeClassName = new(c.runtimeClass)
	}
	for _, name := range c.imagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return spec
}

// architecture returns the architecture of the nodes.
func (c config) architecture() string {
	return cmp.Or(c.nodeSelector[corev1.LabelArchStable], runtime.GOARCH)
}

// patched returns a pod with the patch provider_config.pod applied.
func (c config) patched(pod *corev1.Pod) (*corev1.Pod, error) {
	if c.pod == nil {
		return pod, nil
	}
	before, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, c.pod, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("environment.provider_config.pod: %w", err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		return nil, fmt.Errorf("environment.provider_config.pod: %w", err)
	}
	return out, nil
}

// gpuResource is the name under which NVIDIA's device plugin offers GPUs.
const gpuResource = "nvidia.com/gpu"

// ChoosesGPUs implements environment.GPUProvider: types are labels of nodes, which clusters name as
// they like. provider_config.pod can select them.
func (*Provider) ChoosesGPUs() bool { return false }

// resources returns limits as those of a container. Requests are the same, so that a trial has the
// same machine each time.
func resources(l environment.Limits) corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	if l.MilliCPUs > 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(l.MilliCPUs, resource.DecimalSI)
	}
	if l.Memory > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(l.Memory, resource.BinarySI)
	}
	if l.Storage > 0 {
		list[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(l.Storage+storageOverhead, resource.BinarySI)
	}
	if l.GPUs > 0 {
		list[gpuResource] = *resource.NewQuantity(l.GPUs, resource.DecimalSI)
	}
	if len(list) == 0 {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{Requests: list, Limits: maps.Clone(list)}
}

// seconds rounds up to whole seconds, at most the longest deadline that Kubernetes accepts.
func seconds(d time.Duration) int64 {
	const longest = 1 << 31 // of a deadline. Source: Kubernetes, pkg/apis/core/validation
	return min(int64((d+time.Second-1)/time.Second), longest-1)
}
