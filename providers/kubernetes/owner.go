package kubernetes

import (
	"context"
	"net"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownPodVariable names the pod in which this process runs, where that is not its host name, as with
// the node's network.
const ownPodVariable = "ROLLOUT_POD_NAME"

// self identifies the pod in which this process may run.
type self struct {
	inCluster bool
	name      string
	addresses []string
}

// readSelf reads the identity from the environment variables, host name and network interfaces.
func readSelf() self {
	s := self{inCluster: os.Getenv("KUBERNETES_SERVICE_HOST") != "", name: os.Getenv(ownPodVariable)}
	if s.name == "" {
		s.name, _ = os.Hostname()
	}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil {
			s.addresses = append(s.addresses, ip.String())
		}
	}
	return s
}

// findOwner returns the pod in which this process runs, if that is in the namespace of its pods:
// Kubernetes removes a pod's dependents when the pod itself is removed. nil: there is none, or it
// is not known.
func (p *Provider) findOwner(ctx context.Context, s self) []metav1.OwnerReference {
	if !s.inCluster || s.name == "" {
		return nil
	}
	pod, err := p.client.getPod(ctx, p.client.namespace, s.name)
	if err != nil || pod.DeletionTimestamp != nil {
		return nil
	}
	ours := slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return slices.Contains(s.addresses, ip.IP) })
	if !ours { // another cluster, with a pod of the same name
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
}
