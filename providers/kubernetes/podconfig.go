package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// refusedFields are fields of a pod's spec that provider_config.pod must not set, each with the
// reason or the way to do the same.
var refusedFields = map[string]string{
	"hostNetwork":                   "the pod would share the node's network",
	"hostPID":                       "the pod would see the node's processes",
	"hostIPC":                       "the pod would share the node's memory",
	"shareProcessNamespace":         "Rollout must be process 1 of its container",
	"restartPolicy":                 "a container that has ended must not run again",
	"activeDeadlineSeconds":         "Rollout sets it from the trial's timeouts",
	"terminationGracePeriodSeconds": "pods end at once",
	"automountServiceAccountToken":  "the token of the service account would be the agent's",
	"enableServiceLinks":            "variables would depend on the services of the namespace",
	"ephemeralContainers":           "Rollout makes the containers",
	"nodeName":                      "set node_selector, or affinity in pod.spec",
	"serviceAccount":                "set service_account",
	"serviceAccountName":            "set service_account",
	"runtimeClassName":              "set runtime_class",
	"priorityClassName":             "set priority_class",
	"nodeSelector":                  "set node_selector",
	"tolerations":                   "set tolerations",
	"imagePullSecrets":              "set image_pull_secrets",
	"initContainers":                "Rollout makes the containers",
	"resources":                     "the task's limits are those of its container",
}

// securityFields are the fields of a pod's securityContext that may be set. The others are about
// users.
var securityFields = []string{"seccompProfile", "appArmorProfile", "seLinuxOptions", "sysctls"}

// pod reads provider_config.pod. It returns the patch as JSON, and whether it has volumes.
func (r *reader) pod(where string, value any) (patch []byte, volumes bool) {
	m := r.mapping(where, value, "metadata", "spec")
	if m == nil {
		return nil, false
	}
	before := len(r.problems)
	r.noDirectives(where, m)
	if _, ok := m["metadata"]; ok {
		r.complain(where+".metadata", "set labels and annotations of provider_config", "is refused")
	}
	if spec, ok := m["spec"]; ok {
		volumes = r.podSpec(where+".spec", r.mapping(where+".spec", spec))
	}
	if len(r.problems) > before {
		return nil, volumes
	}
	patch, err := json.Marshal(m)
	if err == nil {
		err = strictJSON(patch, &corev1.Pod{})
	}
	if err != nil {
		r.complain(where, "", "is no part of a pod: %v", err)
		return nil, volumes
	}
	return patch, volumes
}

// noDirectives refuses the directives with which a strategic merge patch removes fields.
func (r *reader) noDirectives(where string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if strings.HasPrefix(key, "$") {
				r.complain(where+"."+key, "a patch can add and replace", "directives are refused")
				continue
			}
			r.noDirectives(where+"."+key, v[key])
		}
	case []any:
		for i, item := range v {
			r.noDirectives(fmt.Sprintf("%s.%d", where, i), item)
		}
	case nil:
		r.complain(where, "a patch can add and replace", "null is refused")
	}
}

func (r *reader) podSpec(where string, spec map[string]any) (volumes bool) {
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		at := where + "." + key
		if why, refused := refusedFields[key]; refused {
			r.complain(at, why, "is refused")
			continue
		}
		switch key {
		case "securityContext":
			for _, field := range slices.Sorted(maps.Keys(r.mapping(at, spec[key]))) {
				if !slices.Contains(securityFields, field) {
					r.complain(at+"."+field, "it may have "+strings.Join(securityFields, ", "), "is refused")
				}
			}
		case "volumes":
			volumes = true
			for i, item := range r.list(at, spec[key]) {
				r.volume(fmt.Sprintf("%s.%d", at, i), item)
			}
		case "containers":
			for i, item := range r.list(at, spec[key]) {
				r.container(fmt.Sprintf("%s.%d", at, i), item)
			}
		}
	}
	return volumes
}

func (r *reader) volume(where string, value any) {
	m := r.mapping(where, value)
	if m["name"] == guestVolume {
		r.complain(where+".name", "choose another name", "%s is Rollout's own volume", guestVolume)
	}
	if _, ok := m["hostPath"]; ok {
		r.complain(where+".hostPath", "the agent would see the node's files: use another type of volume", "is refused")
	}
	if m["projected"] == nil {
		return
	}
	at := where + ".projected.sources"
	for i, source := range r.list(at, r.mapping(where+".projected", m["projected"])["sources"]) {
		if one := fmt.Sprintf("%s.%d", at, i); r.mapping(one, source)["serviceAccountToken"] != nil {
			r.complain(one+".serviceAccountToken", "the agent could use the cluster's API", "is refused")
		}
	}
}

// containerFields are the fields of the container main that may be set.
var containerFields = []string{"name", "resources", "volumeMounts", "volumeDevices"}

func (r *reader) container(where string, value any) {
	m := r.mapping(where, value)
	if m == nil {
		return
	}
	if m["name"] != mainContainer {
		r.complain(where, "name must be "+mainContainer, "is no container of Rollout's")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := where + "." + key
		switch {
		case !slices.Contains(containerFields, key):
			r.complain(at, "the container may have "+strings.Join(containerFields[1:], ", "), "is refused")
		case key == "resources":
			r.resources(at, m[key])
		case key == "volumeMounts":
			for i, item := range r.list(at, m[key]) {
				r.volumeMount(fmt.Sprintf("%s.%d", at, i), item)
			}
		}
	}
}

func (r *reader) resources(where string, value any) {
	for kind, amounts := range r.mapping(where, value, "limits", "requests", "claims") {
		if kind == "claims" {
			continue
		}
		of := r.mapping(where+"."+kind, amounts)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if _, ok := of[string(name)]; ok {
				r.complain(where+"."+kind+"."+string(name), "set the task's limits, or override_cpus, override_memory and override_storage of the job's environment", "is refused")
			}
		}
	}
}

func (r *reader) volumeMount(where string, value any) {
	m := r.mapping(where, value)
	if m["name"] == guestVolume {
		r.complain(where+".name", "", "%s is Rollout's own volume", guestVolume)
	}
	target, ok := m["mountPath"].(string)
	if !ok {
		return // which the cluster refuses
	}
	target = path.Clean("/" + target) // a relative one is below the root
	for _, ours := range append(environment.SpecialDirs(), podinit.Dir) {
		if environment.Within(target, ours) || environment.Within(ours, target) {
			r.complain(where+".mountPath", "choose another path", "%q would put a volume at %s, which Rollout fills and empties", target, ours)
			return
		}
	}
}

// strictJSON decodes JSON as Kubernetes does; fields that there are not, and those that occur
// twice, are errors.
func strictJSON(text []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(strict, err)...)
}
