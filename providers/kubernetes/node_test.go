package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/kubernetes/internal/probe"
)

// The tests of this file have a real scheduler, controllers and kubelet cause what others pretend.

// provider returns a Provider that is closed after the test.
func (c *cluster) provider(t *testing.T, more map[string]any) *Provider {
	t.Helper()
	p := c.open(t, more)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

// options are those of a small environment.
func (c *cluster) options(t *testing.T) environment.CreateOptions {
	return environment.CreateOptions{Image: c.image, Labels: environment.Labels{Job: "node", Trial: t.Name(), Owner: environment.Self()}}
}

// create creates an environment that is destroyed after the test.
func (c *cluster) create(t *testing.T, p *Provider, opts environment.CreateOptions) environment.Environment {
	t.Helper()
	env, err := p.CreateEnvironment(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Destroy(context.Background()) })
	return env
}

// post creates an object, which is JSON or YAML, at a path of the API and returns the answer.
func (c *cluster) post(t *testing.T, path, object string) []byte {
	t.Helper()
	var value map[string]any
	err := yaml.Unmarshal([]byte(object), &value)
	body, encoding := json.Marshal(value)
	if err := errors.Join(err, encoding); err != nil {
		t.Fatal(err)
	}
	answer, err := c.client.core.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("create at %s: %v: %s", path, err, answer)
	}
	return answer
}

// removeLater deletes an object after the test.
func (c *cluster) removeLater(t *testing.T, path string) {
	t.Cleanup(func() {
		if err := c.client.core.Delete().AbsPath(path).Do(context.Background()).Error(); err != nil {
			t.Errorf("delete %s: %v", path, err)
		}
	})
}

func (c *cluster) patch(t *testing.T, kind types.PatchType, path, patch string) {
	t.Helper()
	if text, err := c.client.core.Patch(kind).AbsPath(path).Body([]byte(patch)).DoRaw(t.Context()); err != nil {
		t.Fatalf("patch %s: %v: %s", path, err, text)
	}
}

// wantNoPods checks that a namespace has no pods of environments.
func (c *cluster) wantNoPods(t *testing.T) {
	t.Helper()
	var left []string
	err := c.client.listPods(t.Context(), c.client.namespace, labelRun, func(pod *corev1.Pod) { left = append(left, pod.Name) })
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// wantError checks the kind of an error and its words.
func wantError(t *testing.T, err error, kind environment.Kind, words ...string) {
	t.Helper()
	if environment.KindOf(err) != kind {
		t.Errorf("kind %q, want %q: %v", environment.KindOf(err), kind, err)
	}
	for _, word := range words {
		if err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
	t.Logf("%v", err)
}

func TestPodsThatNodesCannotStart(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	t.Run("no node has room", func(t *testing.T) {
		p := c.provider(t, map[string]any{"schedule_timeout": "3s"})
		opts := c.options(t)
		opts.Limits.MilliCPUs = 1_000_000
		told := ""
		opts.Waiting = func(reason string) { told += reason + "\n" }
		_, err := p.CreateEnvironment(t.Context(), opts)
		wantError(t, err, environment.KindResources, "within 3s", "Insufficient cpu")
		if !strings.Contains(told, "waits for a node: 0/") {
			t.Errorf("told %q", told)
		}
	})
	t.Run("an image that is not in the registry", func(t *testing.T) {
		p := c.provider(t, nil)
		err := p.PullImage(t.Context(), c.image+"-none", nil)
		wantError(t, err, environment.KindPull, c.image+"-none")
		if environment.IsTransient(err) {
			t.Error("it is transient")
		}
	})
	t.Run("an image that the node does not find", func(t *testing.T) {
		p := c.provider(t, map[string]any{"helper_image": c.image + "-none"})
		_, err := p.CreateEnvironment(t.Context(), c.options(t))
		wantError(t, err, environment.KindPull, c.image+"-none", "not found")
		if environment.IsTransient(err) {
			t.Error("it is transient")
		}
	})
	t.Run("a registry that does not answer", func(t *testing.T) {
		p := c.provider(t, map[string]any{"helper_image": "127.0.0.1:9/helper:1"})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		opts, told := c.options(t), make(chan string, 100)
		opts.Waiting = func(reason string) { told <- reason }
		_, err := p.CreateEnvironment(ctx, opts)
		if err == nil || !strings.Contains(err.Error(), "cannot be pulled") || !strings.Contains(err.Error(), "127.0.0.1:9/helper:1") {
			t.Errorf("error %v", err)
		}
	})
	c.wantNoPods(t)
}

func TestQuotasOfANamespace(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	c.post(t, "/api/v1/namespaces/"+c.client.namespace+"/resourcequotas", `{kind: ResourceQuota, apiVersion: v1, metadata: {name: q}, spec: {hard: {limits.cpu: "1", pods: "1"}}}`)
	p := c.provider(t, map[string]any{"schedule_timeout": "8s"})
	never := c.options(t)
	never.Limits.MilliCPUs = 2000
	for _, err := range []error{
		p.CheckCreation(t.Context(), never.Limits, never.Network),
		func() error { _, err := p.CreateEnvironment(t.Context(), never); return err }(),
	} {
		wantError(t, err, environment.KindResources, "the quota q of namespace "+c.client.namespace+" grants 1 of limits.cpu in all, and 2 is wanted")
	}
	opts := c.options(t)
	opts.Limits.MilliCPUs = 100
	var first environment.Environment
	soon(t, "the quota counts", func() bool { // its controller takes a moment to begin
		var err error
		first, err = p.CreateEnvironment(t.Context(), opts)
		return err == nil
	})
	_, err := p.CreateEnvironment(t.Context(), opts)
	wantError(t, err, environment.KindResources, "no place in the namespace's quota within 8s", "used: pods=1")
	made := make(chan error, 1)
	waits := make(chan string, 100)
	opts.Waiting = func(reason string) { waits <- reason }
	go func() {
		env, err := p.CreateEnvironment(t.Context(), opts)
		if err == nil {
			err = env.Destroy(t.Context())
		}
		made <- err
	}()
	if reason := <-waits; !strings.HasPrefix(reason, "waits for a place in the namespace's quota") {
		t.Errorf("it %s", reason)
	}
	if err := first.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-made; err != nil {
		t.Errorf("when there is a place: %v", err)
	}
}

// A queue, such as Kueue, lets pods wait with a scheduling gate.
func TestPodsInAQueueWaitWithoutALimit(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	p := c.provider(t, map[string]any{
		"schedule_timeout": "2s",
		"pod":              map[string]any{"spec": map[string]any{"schedulingGates": []any{map[string]any{"name": "example.com/queue"}}}},
	})
	opts := c.options(t)
	waits := make(chan string, 100)
	opts.Waiting = func(reason string) { waits <- reason }
	made := make(chan error, 1)
	go func() {
		env, err := p.CreateEnvironment(t.Context(), opts)
		if err == nil {
			err = env.Destroy(t.Context())
		}
		made <- err
	}()
	for reason := range waits {
		if strings.Contains(reason, "waits to be admitted (example.com/queue)") {
			break
		}
	}
	select {
	case err := <-made:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(5 * time.Second): // longer than schedule_timeout
	}
	err := c.client.listPods(t.Context(), c.client.namespace, labelRun, func(pod *corev1.Pod) {
		c.patch(t, types.MergePatchType, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name, `{"spec": {"schedulingGates": null}}`)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
}

func TestEnvironmentsThatTheClusterEnds(t *testing.T) {
	testenv.Long(t, "nodes and controllers take their time")
	t.Parallel()
	c := needCluster(t)
	// wait waits in an environment until it is lost.
	wait := func(t *testing.T, env environment.Environment, script string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err := env.Exec(ctx, script, environment.ExecOptions{})
		return err
	}
	t.Run("it writes more than its storage", func(t *testing.T) {
		t.Parallel()
		opts := c.options(t)
		opts.Limits.Storage = 10 << 20
		err := wait(t, c.create(t, c.provider(t, nil), opts), "head -c 400M /dev/zero > /big; sleep 3600")
		wantError(t, err, environment.KindLost, "Evicted", "ephemeral", environment.ErrOutOfStorage.Error())
	})
	t.Run("it lives longer than its lifetime", func(t *testing.T) {
		t.Parallel()
		opts := c.options(t)
		opts.Lifetime = 15 * time.Second
		err := wait(t, c.create(t, c.provider(t, nil), opts), "sleep 3600")
		wantError(t, err, environment.KindLost, "DeadlineExceeded")
	})
	t.Run("it is evicted by the API", func(t *testing.T) {
		t.Parallel()
		env := c.create(t, c.provider(t, nil), c.options(t))
		namespace, name, _ := strings.Cut(env.ID(), "/")
		evicted := make(chan struct{})
		time.AfterFunc(2*time.Second, func() {
			defer close(evicted)
			c.post(t, "/api/v1/namespaces/"+namespace+"/pods/"+name+"/eviction", `{apiVersion: policy/v1, kind: Eviction, metadata: {name: `+name+`, namespace: `+namespace+`}}`)
		})
		wantError(t, wait(t, env, "sleep 3600"), environment.KindLost, "Evicted")
		<-evicted // the environment may end before the request does
	})
	t.Run("a pod with a higher priority takes its place", func(t *testing.T) {
		t.Parallel()
		suffix := strings.TrimPrefix(c.client.namespace, "rollout-test-")
		// A resource of which the node has one, and no other pod wants any. A kubelet with much to
		// do may take minutes to make what there is allocatable, so both are set.
		node := c.node(t)
		places := func(change string) string {
			const at = `{"op": "%[1]s", "path": "/status/%[2]s/rollout.test~1%[3]s", "value": "1"}`
			return "[" + fmt.Sprintf(at, change, "capacity", suffix) + ", " + fmt.Sprintf(at, change, "allocatable", suffix) + "]"
		}
		c.patch(t, types.JSONPatchType, "/api/v1/nodes/"+node+"/status", places("add"))
		t.Cleanup(func() {
			_ = c.client.core.Patch(types.JSONPatchType).AbsPath("/api/v1/nodes/" + node + "/status").Body([]byte(places("remove"))).Do(context.Background()).Error()
		})
		providers := map[string]*Provider{}
		for name, value := range map[string]int{"low": -20, "high": -10} {
			class := name + "-" + suffix
			c.post(t, "/apis/scheduling.k8s.io/v1/priorityclasses", fmt.Sprintf(`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: %d}`, class, value))
			c.removeLater(t, "/apis/scheduling.k8s.io/v1/priorityclasses/"+class)
			providers[name] = c.provider(t, map[string]any{"priority_class": class, "pod": map[string]any{"spec": map[string]any{"containers": []any{
				map[string]any{"name": mainContainer, "resources": map[string]any{"limits": map[string]any{"rollout.test/" + suffix: 1}, "requests": map[string]any{"rollout.test/" + suffix: 1}}},
			}}}})
		}
		low := c.create(t, providers["low"], c.options(t))
		high := make(chan error, 1)
		go func() {
			env, err := providers["high"].CreateEnvironment(t.Context(), c.options(t))
			if err == nil {
				err = env.Destroy(t.Context())
			}
			high <- err
		}()
		wantError(t, wait(t, low, "sleep 3600"), environment.KindLost, "Preempted")
		if err := <-high; err != nil {
			t.Errorf("the other pod: %v", err)
		}
	})
	t.Run("its node is gone", func(t *testing.T) {
		t.Parallel()
		// A node without a machine; the test is its kubelet.
		name := "gone-" + strings.TrimPrefix(c.client.namespace, "rollout-test-")
		c.post(t, "/api/v1/nodes", `{apiVersion: v1, kind: Node, metadata: {name: `+name+`, labels: {gone: `+name+`, kubernetes.io/os: linux, kubernetes.io/arch: `+runtime.GOARCH+`}}, status: {allocatable: {cpu: "1", memory: 1Gi, pods: "9"}, capacity: {cpu: "1", memory: 1Gi, pods: "9"}}}`)
		t.Cleanup(func() { _ = c.client.core.Delete().AbsPath("/api/v1/nodes/" + name).Do(context.Background()).Error() })
		p := c.provider(t, map[string]any{
			"node_selector": map[string]any{"gone": name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH},
			"tolerations":   []any{map[string]any{"operator": "Exists"}},
		})
		p.begin = func(context.Context, podinit.Dialer, podinit.Options) (inContainer, error) { return &fakeGuest{}, nil }
		opts := c.options(t)
		opts.Waiting = nil
		bound := make(chan environment.Environment, 1)
		go func() {
			env, err := p.CreateEnvironment(t.Context(), opts)
			if err != nil {
				t.Error(err)
			}
			bound <- env
		}()
		soon(t, "the pod has the node", func() bool {
			found := false
			_ = c.client.listPods(t.Context(), c.client.namespace, labelRun+"="+p.run, func(pod *corev1.Pod) {
				if found = pod.Spec.NodeName == name; found {
					c.patch(t, types.MergePatchType, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/status",
						`{"status": {"phase": "Running", "containerStatuses": [{"name": "main", "image": "x", "imageID": "x", "ready": true, "restartCount": 0, "state": {"running": {}}}]}}`)
				}
			})
			return found
		})
		env := <-bound
		if env == nil {
			return
		}
		e := env.(*podEnv)
		if err := c.client.core.Delete().AbsPath("/api/v1/nodes/" + name).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		soon(t, "the pod is known to be lost", func() bool { return e.explain(t.Context()) != nil }) // after at most a minute
		wantError(t, e.explain(t.Context()), environment.KindLost, "its node is gone (NodeLost)")
	})
}

// node returns the name of a node that runs pods.
func (c *cluster) node(t *testing.T) string {
	t.Helper()
	list := &corev1.NodeList{}
	if err := c.client.core.Get().Resource("nodes").Do(t.Context()).Into(list); err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		if len(n.Spec.Taints) == 0 {
			return n.Name
		}
	}
	t.Fatal("there is no node")
	return ""
}

// user returns the configuration of a service account with a role, as YAML.
func (c *cluster) user(t *testing.T, name, role string) map[string]any {
	t.Helper()
	namespace := c.client.namespace
	core, rbac := "/api/v1/namespaces/"+namespace, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace
	c.post(t, core+"/serviceaccounts", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: `+name+`}}`)
	c.post(t, rbac+"/roles", strings.Replace(role, "{name: rollout,", "{name: "+name+",", 1))
	c.post(t, rbac+"/rolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: `+name+`}, subjects: [{kind: ServiceAccount, name: `+name+`}], roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: `+name+`}}`)
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal(c.post(t, core+"/serviceaccounts/"+name+"/token", `{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {}}`), &token); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(c.config["kubeconfig"].(string))
	if err != nil {
		t.Fatal(err)
	}
	for user := range kubeconfig.AuthInfos {
		kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"kubeconfig": path}
}

func TestPermissionsOfAServiceAccount(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	t.Run("the role that is documented is enough", func(t *testing.T) {
		p := c.provider(t, c.user(t, "enough", role(c.client.namespace)))
		opts := c.options(t)
		opts.Network = none
		env := c.create(t, p, opts)
		if got := runIn(t, env, "echo works"); got != "works\n" {
			t.Errorf("it printed %q", got)
		}
		if listed, err := p.List(t.Context()); err != nil || len(listed) == 0 {
			t.Errorf("listed %v, %v", listed, err)
		}
		if err := environment.SetNetwork(t.Context(), env, environment.Network{}); err != nil {
			t.Error(err)
		}
		if err := env.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for name, tc := range map[string]struct{ without, want string }{
		"exec":   {"resources: [pods/exec], verbs: [create, get]", "this user may not create pods/exec, get pods/exec in namespace " + c.client.namespace},
		"delete": {"patch, delete]", "this user may not patch pods, delete pods in namespace " + c.client.namespace},
	} {
		t.Run("without "+name, func(t *testing.T) {
			less := strings.Replace(role(c.client.namespace), tc.without, map[string]string{"exec": "resources: [pods/log], verbs: [get]", "delete": "get]"}[name], 1)
			_, err := New(t.Context(), c.with(c.user(t, name, less)), Options{})
			wantError(t, err, environment.KindUnavailable, tc.want, "kind: Role")
		})
	}
	t.Run("without networkpolicies", func(t *testing.T) {
		less := strings.Replace(role(c.client.namespace), "resources: [networkpolicies], verbs: [list, create]", "resources: [networkpolicies], verbs: [watch]", 1)
		p := c.provider(t, c.user(t, "nets", less))
		err := p.CheckCreation(t.Context(), environment.Limits{}, none)
		wantError(t, err, environment.KindStart, "restrict the network", "forbidden", "kind: Role")
		if err := p.CheckCreation(t.Context(), environment.Limits{}, environment.Network{}); err != nil {
			t.Errorf("a public network: %v", err)
		}
	})
	t.Run("no namespace", func(t *testing.T) {
		_, err := New(t.Context(), c.with(map[string]any{"namespace": "rollout-none"}), Options{})
		wantError(t, err, environment.KindUnavailable, "there is no namespace rollout-none")
	})
}

// Another policy of the namespace, which opens the network of all pods.
func TestNamespaceWithAnOpenPolicy(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	p := c.provider(t, nil)
	open := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "open", Namespace: c.client.namespace}, Spec: networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{}}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}}
	if err := c.client.createPolicy(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	wantError(t, p.ProveNetworks(t.Context(), nil), environment.KindStart, "NetworkPolicy open allows traffic of these pods")
	opts := c.options(t)
	opts.Network = none
	_, err := p.CreateEnvironment(t.Context(), opts)
	wantError(t, err, environment.KindStart, "NetworkPolicy open allows traffic of these pods")
	c.wantNoPods(t)
}

// While the API server is away, commands go on, and nothing of their output is lost.
func TestAPIServerThatRestarts(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	kubeconfig, err := clientcmd.LoadFromFile(c.config["kubeconfig"].(string))
	if err != nil {
		t.Fatal(err)
	}
	var between *testenv.Relay
	for _, server := range kubeconfig.Clusters {
		host, _ := strings.CutPrefix(server.Server, "https://")
		between = testenv.NewRelay(t, host)
		name, _, _ := net.SplitHostPort(host)
		server.Server, server.TLSServerName = "https://"+between.Addr().String(), name
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	p := c.provider(t, map[string]any{"kubeconfig": path})
	env := c.create(t, p, c.options(t))
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		code, err := env.Exec(t.Context(), "for i in {1..600}; do echo $i; sleep 0.02; done", environment.ExecOptions{Stdout: &out})
		if err == nil && code != 0 {
			err = fmt.Errorf("code %d", code)
		}
		ended <- err
	}()
	time.Sleep(time.Second)
	between.Cut(false)
	time.Sleep(time.Second)
	between.Cut(true)
	second := make(chan error, 1) // an environment that is asked for meanwhile
	go func() {
		env, err := p.CreateEnvironment(t.Context(), c.options(t))
		if err == nil {
			err = env.Destroy(t.Context())
		}
		second <- err
	}()
	time.Sleep(3 * time.Second)
	between.Cut(false)
	if err := <-ended; err != nil {
		t.Fatalf("the command: %v", err)
	}
	var want strings.Builder
	for i := range 600 {
		fmt.Fprintln(&want, i+1)
	}
	if out.String() != want.String() {
		t.Errorf("it printed %d bytes, want %d", out.Len(), want.Len())
	}
	if err := <-second; err != nil {
		t.Errorf("an environment that was asked for meanwhile: %v", err)
	}
}

// A public network is the internet's: other trials' pods, the API server and the node are not in
// it.
func TestPublicNetworkIsNotThatOfTheCluster(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	p := c.provider(t, nil)
	pods := make([]*podEnv, 2)
	for i := range pods {
		env, ok := c.create(t, p, c.options(t)).(*podEnv)
		if !ok {
			t.Fatal("no pod")
		}
		pods[i] = env
	}
	from, other := pods[0], pods[1]
	go func() {
		_, _ = other.Exec(t.Context(), `exec perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 9, LocalPort => 9000, ReuseAddr => 1) or die; while ($c = $l->accept) { close $c }'`, environment.ExecOptions{})
	}()
	now, _ := p.watch.look(other.name)
	api := &corev1.Service{}
	if err := c.client.core.Get().Namespace("default").Resource("services").Name("kubernetes").Do(t.Context()).Into(api); err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{
		"another trial's pod": net.JoinHostPort(now.pod.Status.PodIP, "9000"),
		"the API server":      net.JoinHostPort(api.Spec.ClusterIP, "443"),
	}
	if slices.Contains(c.reachable, probe.API) { // which its network never forbids
		delete(addresses, "the API server")
	}
	await := func(what, address string, wanted bool) {
		t.Helper()
		reached, err := from.awaitReach(t.Context(), address, wanted, restrictTime)
		if err != nil || reached != wanted {
			t.Errorf("%s at %s: reached %t, want %t: %v", what, address, reached, wanted, err)
		}
	}
	for _, network := range []string{networkProof, networkOpen} {
		for _, pod := range pods {
			if err := pod.relabel(t.Context(), network); err != nil {
				t.Fatal(err)
			}
		}
		for what, address := range addresses {
			await(what, address, network == networkProof)
		}
	}
}

// A pod without restrictions reaches the API service, which is on the node: so that a restricted
// one does not, shows something.
func TestProofTriesWhatPodsOfAClusterReach(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	p := c.provider(t, nil)
	api := &corev1.Service{}
	if err := c.client.core.Get().Namespace("default").Resource("services").Name("kubernetes").Do(t.Context()).Into(api); err != nil {
		t.Fatal(err)
	}
	var told string
	if err := p.ProveNetworks(t.Context(), func(line string) { told = line }); err != nil {
		t.Fatal(err)
	}
	t.Log(told)
	shown, untested, _ := strings.Cut(told, "; not tested")
	if service := "the API service (" + net.JoinHostPort(api.Spec.ClusterIP, "443") + ")"; !strings.Contains(shown, service) && !slices.Contains(c.reachable, probe.API) {
		t.Errorf("%s is not in %q", service, shown)
	}
	if !strings.Contains(untested, "169.254.169.254") && !strings.Contains(shown, "169.254.169.254") {
		t.Errorf("the metadata service is not in %q", told)
	}
}
