package kubernetestest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	api "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/org/rollout-action/providers/internal/podinit"
)

// nodePods is how many pods a node has at most. Source: the kubelet's default.
const nodePods = 110

// fakeNodes are nodes of a cluster whose kubelet is this process. A pod is no more than a pretended
// guest. Two commands can be run in it: the guest's connector, and Echo.
type fakeNodes struct {
	client *api.Clientset
	server *httptest.Server // of all nodes
	stop   context.CancelFunc
	ended  sync.WaitGroup // of nodes

	mu   sync.Mutex
	pods map[string]*podinit.Pretended // by NAMESPACE/NAME
}

// Echo is a command that returns its input.
const Echo = "cat"

func startFakeNodes(ctx context.Context, client *api.Clientset, count int) (*fakeNodes, error) {
	ctx, stop := context.WithCancel(ctx)
	n := &fakeNodes{client: client, stop: stop, pods: map[string]*podinit.Pretended{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", n.exec)
	n.server = httptest.NewUnstartedServer(mux)
	n.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are ended early
	n.server.StartTLS()
	for i := range count {
		name := fmt.Sprintf("fake-%d", i)
		if _, err := client.CoreV1().Nodes().Create(ctx, n.node(name), metav1.CreateOptions{}); err != nil {
			n.close()
			return nil, err
		}
		n.ended.Go(func() { n.run(ctx, name) })
	}
	return n, nil
}

// node returns the object of a node.
func (n *fakeNodes) node(name string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: *resource.NewQuantity(nodePods, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(n.server.Listener.Addr().(*net.TCPAddr).Port)}},
		},
	}
}

// close ends the nodes and the rest of their pods.
func (n *fakeNodes) close() {
	n.stop()
	n.ended.Wait()
	for _, pod := range n.pods {
		pod.Close()
	}
	n.server.Close()
}

// run starts and ends the pods of one node, one after the other as they come, until ctx ends.
func (n *fakeNodes) run(ctx context.Context, node string) {
	source := cache.NewListWatchFromClient(n.client.CoreV1().RESTClient(), "pods", "", fields.OneTermEqualSelector("spec.nodeName", node))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: source, ObjectType: &corev1.Pod{}, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { n.start(ctx, obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				n.remove(name)
			}
		},
	}})
	informer.RunWithContext(ctx)
}

func (n *fakeNodes) pod(name string) *podinit.Pretended {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[name]
}

// start starts a pod and reports it as running.
func (n *fakeNodes) start(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	n.pods[pod.Namespace+"/"+pod.Name] = podinit.Pretend()
	n.mu.Unlock()
	now, main := metav1.Now(), pod.Spec.Containers[0]
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: main.Name, Image: main.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}},
	}})
	for wait := time.Millisecond; err == nil && ctx.Err() == nil; wait *= 2 {
		_, failure := n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if failure == nil || apierrors.IsNotFound(failure) { // then it is about to be removed
			return
		}
		time.Sleep(wait) // the server is busy
	}
}

// remove ends a pod.
func (n *fakeNodes) remove(name string) {
	n.mu.Lock()
	pod := n.pods[name]
	delete(n.pods, name)
	n.mu.Unlock()
	if pod != nil {
		pod.Close()
	}
}

// exec runs a command in a pod, over SPDY: API servers up to 1.35 speak it with kubelets, whatever
// their clients speak.
func (n *fakeNodes) exec(w http.ResponseWriter, r *http.Request) {
	pod := n.pod(r.PathValue("namespace") + "/" + r.PathValue("pod"))
	if pod == nil {
		http.Error(w, "there is no such pod", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return // it has answered
	}
	arrived := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		arrived <- s
		return nil
	})
	if conn == nil {
		return // it has answered
	}
	defer conn.Close()
	streams := map[string]httpstream.Stream{}
	for len(streams) < cap(arrived) { // both clients want all of them
		select {
		case s := <-arrived:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	if err := run(pod, r.URL.Query()["command"], streams[corev1.StreamTypeStdin], streams[corev1.StreamTypeStdout]); err != nil {
		status = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status)
}

// run runs a command until it ends or its input does.
func run(pod *podinit.Pretended, command []string, in io.Reader, out io.Writer) error {
	switch strings.Join(command, " ") {
	case Echo:
		_, err := io.Copy(out, in)
		return err
	case podinit.Connector:
	default:
		return fmt.Errorf("no node of this cluster can run %q", command)
	}
	ours, guests := net.Pipe()
	defer ours.Close()
	go pod.Admit(guests)
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(ours, in)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(out, ours)
		ended <- err
	}()
	return <-ended
}
