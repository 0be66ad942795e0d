package kubernetes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/rollout-action/internal/core/environment"
)

// Pods of a Rollout in the cluster end with its own pod, and those that are kept do not.
func TestPodsBelongToRolloutsOwnPod(t *testing.T) {
	f := newFakeAPI(t)
	p := f.provider(t, nil)
	f.mu.Lock()
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "rollout-abc", UID: "own"}}
	own.Status.PodIPs = []corev1.PodIP{{IP: "10.1.2.3"}}
	f.store("ADDED", own)
	f.mu.Unlock()
	here := self{inCluster: true, name: "rollout-abc", addresses: []string{"127.0.0.1", "10.1.2.3"}}
	for name, s := range map[string]self{
		"outside of clusters":           {name: here.name, addresses: here.addresses},
		"a pod of that name, elsewhere": {inCluster: true, name: here.name, addresses: []string{"10.9.9.9"}},
		"a pod of another namespace":    {inCluster: true, name: "other", addresses: here.addresses},
	} {
		if got := p.findOwner(t.Context(), s); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	p.owner = p.findOwner(t.Context(), here)
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: "i", Labels: environment.Labels{Job: "j"}})
	if err != nil {
		t.Fatal(err)
	}
	owners := func() []metav1.OwnerReference {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.pods[env.(*podEnv).name].OwnerReferences
	}
	if got := owners(); len(got) != 1 || got[0].Kind != "Pod" || got[0].Name != "rollout-abc" || got[0].UID != "own" || got[0].BlockOwnerDeletion != nil {
		t.Errorf("owners: %+v", got)
	}
	if probe := p.probePod(roleTarget, "helper", "listen", ":1"); len(probe.OwnerReferences) != 1 {
		t.Errorf("owners of the proof: %+v", probe.OwnerReferences)
	}
	if err := env.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := owners(); len(got) > 0 {
		t.Errorf("owners of a pod that is kept: %+v", got)
	}
}
