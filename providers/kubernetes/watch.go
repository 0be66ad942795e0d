package kubernetes

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// tracker knows the state of this Provider's pods from one watch. It implements
// cache.ReflectorStore: client-go's reflector lists and watches, and begins anew when a watch ends
// or has expired.
type tracker struct {
	client   *client
	selector string
	start    sync.Once
	stop     context.CancelFunc
	ended    chan struct{}
	listed   chan struct{} // is closed after the first list
	first    sync.Once

	mu   sync.Mutex
	pods map[string]*tracked // by name
}

// tracked is the last known state of one pod.
type tracked struct {
	uid     types.UID // "": not created yet
	pod     *corev1.Pod
	gone    bool
	unsure  bool          // a list did not have it: it may be gone, or the list may be old
	changed chan struct{} // is closed at the next change
}

func newTracker(c *client, selector string) *tracker {
	return &tracker{client: c, selector: selector, pods: map[string]*tracked{}, ended: make(chan struct{}), listed: make(chan struct{}), stop: func() {}}
}

// begin begins the watch, once.
func (t *tracker) begin() {
	t.start.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		t.mu.Lock()
		t.stop = cancel
		t.mu.Unlock()
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = t.selector
				return t.client.listForWatch(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = t.selector
				return t.client.watchPods(ctx, o)
			},
		}
		reflector := cache.NewReflectorWithOptions(source, &corev1.Pod{}, t, cache.ReflectorOptions{
			Name: "rollout",
			// Trials wait for this: a server that is back is found soon.
			Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Steps: 8, Factor: 2, Jitter: 0.5},
		})
		go func() {
			defer close(t.ended)
			reflector.RunWithContext(ctx)
		}()
	})
}

// close ends the watch.
func (t *tracker) close() {
	began := true
	t.start.Do(func() { began = false; close(t.ended) })
	if began {
		t.mu.Lock()
		stop := t.stop
		t.mu.Unlock()
		stop()
	}
	<-t.ended
}

// follow begins to track the state of a pod, which need not exist yet. It waits a few seconds for
// the watch to begin, so that no pod is missing in the first list.
func (t *tracker) follow(ctx context.Context, name string) {
	const moment = 5 * time.Second
	t.begin()
	select {
	case <-t.listed:
	case <-time.After(moment):
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods[name] == nil {
		t.pods[name] = &tracked{changed: make(chan struct{})}
	}
}

// forget ends the tracking that follow began.
func (t *tracker) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.pods[name]; p != nil {
		delete(t.pods, name)
		p.wake()
	}
}

// look returns the state of a followed pod, and a channel that is closed when it changes.
func (t *tracker) look(name string) (tracked, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pods[name]
	if p == nil {
		return tracked{}, false
	}
	return *p, true
}

// learn stores a pod from an answer of the API.
func (t *tracker) learn(pod *corev1.Pod) { t.set(pod, false) }

// learnGone records that a pod does not exist.
func (t *tracker) learnGone(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.pods[name]; p != nil && !p.gone {
		p.gone, p.unsure = true, false
		p.wake()
	}
}

func (t *tracker) set(pod *corev1.Pod, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pods[pod.Name]
	if p == nil || p.gone && !gone || p.uid != "" && p.uid != pod.UID || older(pod, p.pod) && !gone {
		return
	}
	p.uid, p.pod, p.unsure, p.gone = pod.UID, trimmed(pod), false, gone
	p.wake()
}

// older reports whether a pod is an earlier state than another one. Versions of one cluster's
// objects are numbers that grow.
// Source: Kubernetes 1.35 promises that; earlier versions do it.
func older(pod, than *corev1.Pod) bool {
	if than == nil {
		return false
	}
	a, b := pod.ResourceVersion, than.ResourceVersion
	return len(a) < len(b) || len(a) == len(b) && a < b
}

// wake wakes the waiting goroutines. The tracker's lock is held.
func (p *tracked) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// trimmed returns a pod with only the fields in use: thousands of them are kept.
func trimmed(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp},
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates},
		Status:     pod.Status,
	}
}

// Add implements cache.ReflectorStore.
func (t *tracker) Add(obj any) error { return t.Update(obj) }

// Update implements cache.ReflectorStore.
func (t *tracker) Update(obj any) error {
	if pod, ok := obj.(*corev1.Pod); ok {
		t.set(pod, false)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (t *tracker) Delete(obj any) error {
	if pod, ok := obj.(*corev1.Pod); ok {
		t.set(pod, true)
	}
	return nil
}

// Replace implements cache.ReflectorStore. A pod that the list has not may have been created after
// it.
func (t *tracker) Replace(list []any, _ string) error {
	there := map[string]bool{}
	for _, obj := range list {
		if pod, ok := obj.(*corev1.Pod); ok {
			there[pod.Name] = true
			t.set(pod, false)
		}
	}
	t.first.Do(func() { close(t.listed) })
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, p := range t.pods {
		if !there[name] && p.uid != "" && !p.gone {
			p.unsure = true
			p.wake()
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (t *tracker) Resync() error { return nil }
