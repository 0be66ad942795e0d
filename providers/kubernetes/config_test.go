package kubernetes

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var cfg map[string]any
	if err := yaml.Unmarshal([]byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestCheckFindsEveryProblem(t *testing.T) {
	for _, tc := range []struct {
		name, yaml string
		want       []string // path: message, of each problem
	}{
		{"nothing is fine", ``, nil},
		{"everything is fine", `
context: prod
namespace: evals
kubeconfig: ~/.kube/other
registry: ghcr.io/org/evals
helper_image: ghcr.io/org/helper:1
builder: sandbox
buildkit: tcp://buildkitd:1234
plain_http: true
labels: {kueue.x-k8s.io/queue-name: evals}
annotations: {example.com/why: "any text\n"}
node_selector: {kubernetes.io/arch: arm64}
tolerations: [{key: gpu, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]
runtime_class: gvisor
priority_class: low
service_account: runner
image_pull_secrets: [one, two]
schedule_timeout: 30m
price: {cpu_hour: 0.03, gib_hour: 1}
pod:
  spec:
    affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}}
    hostUsers: false
    securityContext: {seccompProfile: {type: Localhost, localhostProfile: x.json}}
    containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}, volumeMounts: [{name: data, mountPath: /data}]}]
    volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`, nil},
		{"types", "namespace: 1\nplain_http: maybe\nlabels: [a]\ntolerations: {}\nimage_pull_secrets: x\nprice: 3\nbuildkit: {}\n", []string{
			"buildkit: has no address", "image_pull_secrets: must be a list", "labels: must be a mapping", "namespace: must be a text",
			"plain_http: must be true or false", "price: must be a mapping", "tolerations: must be a list",
		}},
		{"names and values", "namespace: Not_A_Name\nbuilder: kaniko\nschedule_timeout: 5\nprice: {cpu_hour: -1, gib_hour: x, gpu: 1}\nlabels: {a: true, \"b c\": d, e: \"f g\", rollout.run: x}\n", []string{
			"builder: must be one of docker, buildkit, sandbox", `labels: "b c" cannot be a key`, `labels: "f g" cannot be the value of e`,
			"labels: rollout.run is Rollout's own", "labels: the value of a must be a text", `namespace: "Not_A_Name" is no name`,
			"price.cpu_hour: must be an amount", "price.gib_hour: must be an amount", "price.gpu: unknown key", "schedule_timeout: must be a duration",
		}},
		{"what no restricted pod may reach", "reachable: [node, dns]", []string{"reachable.1: must be one of node, api"}},
		{"a toleration with a field that there is not", "tolerations: [{key: a, seconds: 3}]", []string{`tolerations.0: unknown field "seconds"`}},
		{"unknown keys", "nodeSelector: {a: b}", []string{"nodeSelector: unknown key"}},
		{"what would break the isolation of pods", `
pod:
  metadata: {labels: {a: b}}
  status: {}
  spec:
    hostNetwork: true
    hostPID: true
    hostIPC: true
    shareProcessNamespace: true
    restartPolicy: Always
    activeDeadlineSeconds: 1
    automountServiceAccountToken: true
    nodeName: a
    initContainers: []
    securityContext: {runAsUser: 1000, sysctls: []}
    containers: [{name: main, command: [sh], securityContext: {privileged: true}}, {name: other, image: x}]
    volumes: [{name: rollout, emptyDir: {}}, {name: host, hostPath: {path: /}}]
`, []string{
			"pod.metadata: is refused", "pod.spec.activeDeadlineSeconds: is refused", "pod.spec.automountServiceAccountToken: is refused",
			"pod.spec.containers.0.command: is refused", "pod.spec.containers.0.securityContext: is refused", "pod.spec.containers.1: is no container of Rollout's",
			"pod.spec.hostIPC: is refused", "pod.spec.hostNetwork: is refused", "pod.spec.hostPID: is refused", "pod.spec.initContainers: is refused",
			"pod.spec.nodeName: is refused", "pod.spec.restartPolicy: is refused", "pod.spec.securityContext.runAsUser: is refused",
			"pod.spec.shareProcessNamespace: is refused", "pod.spec.volumes.0.name: rollout is Rollout's own volume", "pod.spec.volumes.1.hostPath: is refused",
			"pod.status: unknown key",
		}},
		{"directives, which could remove what Rollout needs", `pod: {spec: {$patch: replace, volumes: [{$patch: delete, name: x}], affinity: null}}`, []string{
			"pod.spec.$patch: directives are refused", "pod.spec.affinity: null is refused", "pod.spec.volumes.0.$patch: directives are refused",
		}},
		{"limits that are the task's", `pod: {spec: {containers: [{name: main, resources: {requests: {cpu: 1}, limits: {memory: 1Gi, ephemeral-storage: 1Gi, nvidia.com/gpu: 1}}}]}}`, []string{
			"pod.spec.containers.0.resources.limits.ephemeral-storage: is refused", "pod.spec.containers.0.resources.limits.memory: is refused",
			"pod.spec.containers.0.resources.requests.cpu: is refused",
		}},
		{"a token of the service account", `pod: {spec: {volumes: [{name: t, projected: {sources: [{configMap: {name: c}}, {serviceAccountToken: {path: t}}]}}]}}`, []string{
			"pod.spec.volumes.0.projected.sources.1.serviceAccountToken: is refused",
		}},
		{"mounts on Rollout's directories", `pod: {spec: {containers: [{name: main, volumeMounts: [{name: a, mountPath: /logs/agent}, {name: a, mountPath: /}, {name: a, mountPath: /.rollout/x}, {name: rollout, mountPath: /x}, {name: a, mountPath: logs/verifier}]}]}}`, []string{
			`pod.spec.containers.0.volumeMounts.0.mountPath: "/logs/agent" would put a volume at /logs`, `pod.spec.containers.0.volumeMounts.1.mountPath: "/" would put`,
			`pod.spec.containers.0.volumeMounts.2.mountPath: "/.rollout/x" would put`, "pod.spec.containers.0.volumeMounts.3.name: rollout is Rollout's own volume",
			`pod.spec.containers.0.volumeMounts.4.mountPath: "/logs/verifier" would put`,
		}},
		{"fields that pods have not", `pod: {spec: {nodeAffinity: {}}}`, []string{`pod: is no part of a pod: unknown field "spec.nodeAffinity"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			problems := Check(parsed(t, tc.yaml))
			for i, p := range problems {
				if i >= len(tc.want) || !strings.HasPrefix(p.Path+": "+p.Message, tc.want[i]) {
					t.Errorf("problem %d: %s: %s (%s)", i, p.Path, p.Message, p.Hint)
				}
			}
			if len(problems) != len(tc.want) {
				t.Errorf("%d problems, want %d: %v", len(problems), len(tc.want), tc.want)
			}
		})
	}
}

func TestConfigIsRead(t *testing.T) {
	c, err := parseConfig(parsed(t, "schedule_timeout: 90s\nprice: {cpu_hour: 1, gib_hour: 0.5}\nbuildkit: {address: tcp://b:1, ca_cert: ca.pem}\nkubeconfig: ~/x\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.scheduleTimeout != 90*time.Second || c.price != (price{1, 0.5}) || c.buildkit.Address != "tcp://b:1" || c.buildkit.CACert != "ca.pem" {
		t.Errorf("read %+v", c)
	}
	t.Setenv("HOME", "/home/u")
	if got := expandHome(c.kubeconfig); got != "/home/u/x" {
		t.Errorf("the kubeconfig is %s", got)
	}
	if c, err := parseConfig(nil); err != nil || c.scheduleTimeout != defaultScheduleTimeout {
		t.Errorf("without configuration: %+v, %v", c, err)
	}
}

func TestVolumesAreNotAddressed(t *testing.T) {
	if got := Unaddressed(parsed(t, `pod: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}`)); len(got) != 1 {
		t.Errorf("a claim gives %q", got)
	}
	if got := Unaddressed(parsed(t, `pod: {spec: {hostUsers: false}}`)); len(got) != 0 {
		t.Errorf("no volume gives %q", got)
	}
}
