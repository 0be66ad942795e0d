package kubernetes

import (
	"context"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/docker"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// cluster is a real cluster: ROLLOUT_TEST_KUBECONFIG, with a registry that has testenv.Image:
// ROLLOUT_TEST_REGISTRY. What its network does not forbid is in ROLLOUT_TEST_REACHABLE, as in
// provider_config.reachable, with commas.
type cluster struct {
	config    map[string]any
	image     string
	client    *client
	reachable []string
}

// needCluster returns the cluster, with a namespace that is the test's own, or skips the test.
func needCluster(t *testing.T) *cluster {
	t.Helper()
	kubeconfig, registry := os.Getenv("ROLLOUT_TEST_KUBECONFIG"), os.Getenv("ROLLOUT_TEST_REGISTRY")
	if kubeconfig == "" || registry == "" {
		testenv.Lacks(t, Name, "a Kubernetes cluster: ROLLOUT_TEST_KUBECONFIG and ROLLOUT_TEST_REGISTRY")
	}
	name := podName(environment.Labels{Job: "test"})
	c := &cluster{
		image:  registry + "/" + testenv.Image,
		config: map[string]any{"kubeconfig": kubeconfig, "namespace": name, "registry": registry + "/evals", "plain_http": true, "schedule_timeout": "2m"},
	}
	if kinds := os.Getenv("ROLLOUT_TEST_REACHABLE"); kinds != "" {
		var list []any
		c.reachable = strings.Split(kinds, ",")
		for _, kind := range c.reachable {
			list = append(list, kind)
		}
		c.config["reachable"] = list
	}
	conf, err := parseConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	at, err := conf.findCluster()
	if err == nil {
		c.client, err = newClient(at.config, name)
	}
	testenv.Check(t, Name, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = c.client.core.Post().Resource("namespaces").Body(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}).Do(ctx).Error()
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := c.client.core.Delete().Resource("namespaces").Name(name).Do(context.Background()).Error(); err != nil {
			t.Errorf("delete the namespace: %v", err)
		}
	})
	soon(t, "the namespace's service account", func() bool {
		return c.client.core.Get().Namespace(name).Resource("serviceaccounts").Name("default").Do(t.Context()).Error() == nil
	})
	return c
}

// with returns the configuration with more.
func (c *cluster) with(more map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range []map[string]any{c.config, more} {
		for key, value := range m {
			all[key] = value
		}
	}
	return all
}

func (c *cluster) open(t testing.TB, more map[string]any) *Provider {
	t.Helper()
	p, err := New(t.Context(), c.with(more), Options{Builders: []registryimage.Builder{docker.ImageBuilder()}})
	testenv.Check(t, Name, err)
	return p
}

// server starts the server of environmenttest.Outside in a pod, and returns its address.
func (p *Provider) server(t testing.TB) string {
	t.Helper()
	helper, err := p.helperImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Pods with a public network reach nothing private but by such a policy.
	tcp, port := corev1.ProtocolTCP, intstr.FromInt32(8080)
	err = p.client.createPolicy(t.Context(), &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: "test-server", Namespace: p.client.namespace},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelNetwork: networkOpen}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To:    []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &port}},
			}},
		},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	pod := p.probePod("test-server", helper, "", "")
	main := &pod.Spec.Containers[0]
	main.Command = []string{"/" + testServer}
	main.VolumeMounts = []corev1.VolumeMount{{Name: guestVolume, MountPath: "/" + testServer, SubPath: path.Base(podinit.Program), ReadOnly: true}}
	pod.Annotations = nil // it is no environment
	if err := p.start(t.Context(), pod, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.remove(context.Background(), pod.Namespace, pod.Name) })
	now, _ := p.watch.look(pod.Name)
	address := strings.TrimSuffix(targetAddresses(now.pod)[0], ":8411") + ":8080"
	return address
}
