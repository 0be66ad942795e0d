package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/kubernetes"
)

// kubernetes measures hello trials as pods of the cluster that the tests use.
func (b *bench) kubernetes(ctx context.Context) error {
	kubeconfig, registry := os.Getenv("ROLLOUT_TEST_KUBECONFIG"), os.Getenv("ROLLOUT_TEST_REGISTRY")
	if kubeconfig == "" || registry == "" {
		return fmt.Errorf("%w: ROLLOUT_TEST_KUBECONFIG and ROLLOUT_TEST_REGISTRY name no cluster", errUnmeasurable)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	floor, err := newBarePods(ctx, config)
	if err != nil {
		return err
	}
	defer floor.close()
	ours, err := b.onKubernetes(ctx, kubeconfig, floor.namespace, registry)
	if err != nil {
		return err
	}
	defer ours.provider.Close()
	if err := floor.prepare(ctx, ours); err != nil {
		return err
	}
	plain(&floor.pod.Spec)
	parallel := timed(func(ctx context.Context) error {
		return each(ctx, podTrials, podTrials, func(ctx context.Context, _ int) error { return floor.trial(ctx) })
	})
	return b.measure(ctx,
		measuring{"kubernetes.sequential", ours.trials(1, 1), timed(floor.trial)},
		measuring{"kubernetes.parallel", perSecond(podTrials, ours.trials(podTrials, podTrials)), perSecond(podTrials, parallel)})
}

// onKubernetes returns the hello job in a namespace of a cluster, with the bench's image in the
// registry. Its trials have no limits, so that many fit on a small node and none is queued.
func (b *bench) onKubernetes(ctx context.Context, kubeconfig, namespace, registry string) (*stage, error) {
	provider, err := kubernetes.New(ctx, map[string]any{"kubeconfig": kubeconfig, "namespace": namespace, "registry": registry + "/evals"}, kubernetes.Options{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	s, err := newStage(ctx, filepath.Join(b.dir, "kubernetes"), registry+"/"+b.image, 1, provider)
	if err != nil {
		return nil, err
	}
	limits := &s.set.Tasks[0].Config.Environment
	limits.MilliCPUs, limits.Memory, limits.Storage = 0, 0, 0
	return s, nil
}

// barePods makes only the API calls of a hello trial, in a separate namespace: it creates a pod,
// learns from the watch of all pods that it runs, runs all scripts in one command, and deletes the
// pod.
type barePods struct {
	config    *rest.Config
	client    *api.Clientset
	namespace string
	pod       *corev1.Pod // template of all pods: the provider's, or a plain one
	stop      context.CancelFunc

	mu      sync.Mutex
	waiting map[string]chan struct{} // by name: closed when the pod runs
}

// benchRun is the value of the label that selects these pods in a watch. The provider watches only
// its own.
const (
	benchRunLabel = "rollout.run"
	benchRun      = "bench"
)

func newBarePods(ctx context.Context, config *rest.Config) (*barePods, error) {
	config.QPS = -1
	client, err := api.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace, err := newNamespace(ctx, client)
	if err != nil {
		return nil, err
	}
	p := &barePods{config: config, client: client, namespace: namespace, waiting: map[string]chan struct{}{}}
	watching, stop := context.WithCancel(ctx)
	p.stop = stop
	source := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, func(o *metav1.ListOptions) {
		o.LabelSelector = benchRunLabel + "=" + benchRun
	})
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: source, ObjectType: &corev1.Pod{}, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { p.notice(obj.(*corev1.Pod)) }, UpdateFunc: func(_, obj any) { p.notice(obj.(*corev1.Pod)) },
	}})
	go informer.RunWithContext(watching)
	return p, nil
}

// newNamespace creates a namespace in which pods can be created.
func newNamespace(ctx context.Context, client *api.Clientset) (name string, err error) {
	name = "rollout-bench-" + strings.ToLower(rand.Text()[:8])
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	for ctx.Err() == nil {
		if _, err = client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return name, ctx.Err()
}

// close removes the namespace.
func (p *barePods) close() {
	p.stop()
	_ = p.client.CoreV1().Namespaces().Delete(context.Background(), p.namespace, metav1.DeleteOptions{}) // a leftover is named after the bench
}

// notice notifies the waiter for a pod if the pod runs.
func (p *barePods) notice(pod *corev1.Pod) {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if runs := p.waiting[pod.Name]; runs != nil {
		close(runs)
		delete(p.waiting, pod.Name)
	}
}

// prepare takes the provider's pod for a trial as the template.
func (p *barePods) prepare(ctx context.Context, s *stage) error {
	env, err := s.provider.CreateEnvironment(ctx, environment.CreateOptions{Image: s.image, Labels: environment.Labels{Job: "bench", Trial: "bare", Owner: environment.Self()}})
	if err != nil {
		return err
	}
	_, name, _ := strings.Cut(env.ID(), "/")
	made, err := p.client.CoreV1().Pods(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		p.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Labels: made.Labels, Annotations: made.Annotations}, Spec: made.Spec}
		p.pod.Labels[benchRunLabel], p.pod.Spec.NodeName = benchRun, ""
	}
	return errors.Join(err, env.Destroy(ctx))
}

// plain removes Rollout's program from a pod, with the init container and the volume that provide
// it. The remaining container waits for a command.
func plain(spec *corev1.PodSpec) {
	spec.InitContainers, spec.Volumes = nil, nil
	main := &spec.Containers[0]
	main.Command, main.VolumeMounts = []string{"sleep", "infinity"}, nil
}

// bareScript does the work of a hello trial.
var bareScript = fmt.Sprintf(`set -e
mkdir -p /logs/agent /logs/verifier /rollout /tests
cat >%[1]s <<'X'
%[2]sX
cat >/rollout/install.sh <<'X'
%[3]sX
cat >/rollout/execute.sh <<'X'
%[4]sX
cat >/tests/test.sh <<'X'
%[5]sX
bash /rollout/install.sh
ROLLOUT_TASK_INSTRUCTION=%[1]s bash /rollout/execute.sh
bash /tests/test.sh
tar -c /logs
`, instructionPath, helloInstruction, helloInstall, helloExecute, helloTest)

// trial runs one hello trial.
func (p *barePods) trial(ctx context.Context) (err error) {
	name, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove(ctx, name)) }()
	var out bytes.Buffer
	err = p.exec(ctx, name, remotecommand.StreamOptions{Stdout: &out, Stderr: io.Discard}, "bash", "-c", bareScript)
	if err == nil && !bytes.Contains(out.Bytes(), []byte("logs/verifier/reward.txt")) {
		err = errors.New("the bare trial left no reward")
	}
	return err
}

// start creates a pod and waits until it runs.
func (p *barePods) start(ctx context.Context) (name string, err error) {
	pod := p.pod.DeepCopy()
	pod.Name = "rollout-bench-" + strings.ToLower(rand.Text()[:16])
	runs := make(chan struct{})
	p.mu.Lock()
	p.waiting[pod.Name] = runs
	p.mu.Unlock()
	if _, err := p.client.CoreV1().Pods(p.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	select {
	case <-runs:
		return pod.Name, nil
	case <-time.After(10 * time.Minute):
		err = fmt.Errorf("pod %s does not run", pod.Name)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return "", errors.Join(err, p.remove(ctx, pod.Name))
}

// remove deletes a pod, even after ctx has ended.
func (p *barePods) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return p.client.CoreV1().Pods(p.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// exec runs a command in a pod.
func (p *barePods) exec(ctx context.Context, name string, streams remotecommand.StreamOptions, command ...string) error {
	url := p.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.namespace).Name(name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Command: command, Stdin: streams.Stdin != nil, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec).URL()
	exec, err := remotecommand.NewWebSocketExecutor(p.config, http.MethodGet, url.String())
	if err != nil {
		return err
	}
	return exec.StreamWithContext(ctx, streams)
}
