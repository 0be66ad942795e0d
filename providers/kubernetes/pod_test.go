package kubernetes

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// built returns the pod of an environment under a configuration.
func built(t *testing.T, cfg string, opts environment.CreateOptions, target string) *corev1.Pod {
	t.Helper()
	c, err := parseConfig(parsed(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{config: c, client: &client{namespace: "evals"}, run: "r1"}
	pod, err := p.buildPod(podSpec{name: "p", namespace: "evals", image: "task@sha256:1", helper: "helper@sha256:2", opts: opts, target: target})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestPod(t *testing.T) {
	opts := environment.CreateOptions{
		Labels:   environment.Labels{Job: "nightly", Trial: "a/b\nc", Owner: environment.Self()},
		Limits:   environment.Limits{MilliCPUs: 500, Memory: 1 << 30, Storage: 2 << 30, Pids: 7},
		Lifetime: time.Hour + time.Millisecond,
		Env:      map[string]string{"SECRET": "s3cret"},
	}
	pod := built(t, "service_account: sa\nimage_pull_secrets: [one]\nruntime_class: gvisor\npriority_class: low\nnode_selector: {pool: x}\nlabels: {team: a}\nannotations: {why: b}\n", opts, "")
	s := pod.Spec
	if s.RestartPolicy != corev1.RestartPolicyNever || *s.TerminationGracePeriodSeconds != 0 || *s.AutomountServiceAccountToken || *s.EnableServiceLinks || *s.ActiveDeadlineSeconds != 3601 {
		t.Errorf("the pod is %+v", s)
	}
	if s.ServiceAccountName != "sa" || s.ImagePullSecrets[0].Name != "one" || *s.RuntimeClassName != "gvisor" || s.PriorityClassName != "low" {
		t.Errorf("the configuration is not in %+v", s)
	}
	if s.NodeSelector["pool"] != "x" || s.NodeSelector[corev1.LabelArchStable] != runtime.GOARCH || s.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("the node selector is %v", s.NodeSelector)
	}
	if environment.ParseLabels(pod.Annotations) != opts.Labels || pod.Annotations["why"] != "b" {
		t.Errorf("the annotations are %v", pod.Annotations)
	}
	if pod.Labels["team"] != "a" || pod.Labels[labelRun] != "r1" || pod.Labels[labelJob] != "nightly" || pod.Labels[labelNetwork] != networkOpen {
		t.Errorf("the labels are %v", pod.Labels)
	}
	main := s.Containers[0]
	if len(s.Containers) != 1 || main.Name != mainContainer || main.Image != "task@sha256:1" || strings.Join(main.Command, " ") != podinit.Program || main.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("the container is %+v", main)
	}
	if !main.VolumeMounts[0].ReadOnly || main.VolumeMounts[0].MountPath != podinit.Dir {
		t.Errorf("its mounts are %+v", main.VolumeMounts)
	}
	for _, c := range append(s.InitContainers, main) {
		for name, want := range map[corev1.ResourceName]int64{corev1.ResourceMemory: 1 << 30, corev1.ResourceEphemeralStorage: 2<<30 + storageOverhead} {
			limit, request := c.Resources.Limits[name], c.Resources.Requests[name]
			if limit.Value() != want || request.Cmp(limit) != 0 {
				t.Errorf("%s has %s of %s and requests %s, want %d", c.Name, limit.String(), name, request.String(), want)
			}
		}
		if cpu := c.Resources.Limits[corev1.ResourceCPU]; cpu.MilliValue() != 500 {
			t.Errorf("%s has %s cpus", c.Name, cpu.String())
		}
		if len(c.Env) > 0 {
			t.Errorf("%s has variables, which everybody who sees the pod can read: %v", c.Name, c.Env)
		}
	}
	if len(s.InitContainers) != 1 || s.InitContainers[0].Image != "helper@sha256:2" || s.InitContainers[0].VolumeMounts[0].ReadOnly {
		t.Errorf("the init containers are %+v", s.InitContainers)
	}
}

// The container sees the task's limit, and Rollout's program can be copied under any.
func TestSmallMemoryIsTheContainersAlone(t *testing.T) {
	pod := built(t, "", environment.CreateOptions{Limits: environment.Limits{Memory: 16 << 20}}, "10.0.0.1:8411")
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		want := int64(installMemory)
		if c.Name == mainContainer {
			want = 16 << 20
		}
		if got := c.Resources.Limits[corev1.ResourceMemory]; got.Value() != want {
			t.Errorf("%s has %d bytes of memory, want %d", c.Name, got.Value(), want)
		}
	}
}

// The trial's container alone gets the GPUs.
func TestPodWithGPUs(t *testing.T) {
	pod := built(t, "", environment.CreateOptions{Limits: environment.Limits{GPUs: 2}}, "10.0.0.1:8411")
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		want := int64(0)
		if c.Name == mainContainer {
			want = 2
		}
		if got := c.Resources.Limits[gpuResource]; got.Value() != want {
			t.Errorf("%s has %d GPUs, want %d", c.Name, got.Value(), want)
		}
	}
	quota := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("1")}}}
	known := new(environment.Error)
	if err := fits(environment.Limits{GPUs: 2}, []corev1.ResourceQuota{quota}, nil); !errors.As(err, &known) || strings.Contains(known.Hint, "override") {
		t.Errorf("a quota of one GPU: %v", err)
	}
}

func TestPodWithoutLimitsHasNone(t *testing.T) {
	pod := built(t, "", environment.CreateOptions{}, "")
	if r := pod.Spec.Containers[0].Resources; len(r.Limits)+len(r.Requests) > 0 {
		t.Errorf("resources %+v", r)
	}
	if pod.Spec.ActiveDeadlineSeconds != nil {
		t.Errorf("it ends after %d s", *pod.Spec.ActiveDeadlineSeconds)
	}
}

func TestRestrictedPodIsTestedBeforeItsContainerRuns(t *testing.T) {
	pod := built(t, "", environment.CreateOptions{Network: environment.Network{Mode: environment.NetworkAllowlist}}, "10.0.0.1:8411")
	if pod.Labels[labelNetwork] != networkRestricted {
		t.Errorf("the labels are %v", pod.Labels)
	}
	inits := pod.Spec.InitContainers
	if len(inits) != 2 || inits[0].Name != installContainer || inits[1].Name != probeContainer || strings.Join(inits[1].Command, " ") != "/rollout-probe closed 10.0.0.1:8411" {
		t.Errorf("the init containers are %+v", inits)
	}
}

func TestPatchAddsToThePod(t *testing.T) {
	pod := built(t, `
pod:
  spec:
    hostUsers: false
    affinity: {podAntiAffinity: {}}
    securityContext: {seccompProfile: {type: Localhost, localhostProfile: x}}
    containers:
      - name: main
        resources: {limits: {nvidia.com/gpu: 1}}
        volumeMounts: [{name: data, mountPath: /data}]
    volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`, environment.CreateOptions{Limits: environment.Limits{MilliCPUs: 1000}}, "")
	s := pod.Spec
	main := s.Containers[0]
	gpu, cpu := main.Resources.Limits["nvidia.com/gpu"], main.Resources.Limits[corev1.ResourceCPU]
	switch {
	case *s.HostUsers || s.Affinity == nil || s.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeLocalhost:
		t.Errorf("the pod is %+v", s)
	case len(s.Containers) != 1 || main.Command[0] != podinit.Program || gpu.Value() != 1 || cpu.Value() != 1:
		t.Errorf("the container is %+v", main)
	case len(main.VolumeMounts) != 2 || len(s.Volumes) != 2 || s.Containers[0].SecurityContext.RunAsUser == nil:
		t.Errorf("the volumes are %+v, mounted %+v", s.Volumes, main.VolumeMounts)
	}
}

func TestCost(t *testing.T) {
	p := price{cpuHour: 0.04, gibHour: 0.01}
	if got := p.of(environment.Limits{MilliCPUs: 500, Memory: 2 << 30}, 30*time.Minute); got != 0.02 {
		t.Errorf("half a CPU and 2 GiB for half an hour cost %v", got)
	}
	if got := (price{}).of(environment.Limits{MilliCPUs: 500}, time.Hour); got != 0 {
		t.Errorf("without a price it is %v", got)
	}
}
