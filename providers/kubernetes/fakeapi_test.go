package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// fakeAPI is an API server with one namespace, in this process. It keeps pods as a real one does,
// as far as the provider sees.
type fakeAPI struct {
	*httptest.Server

	// kubelet is called with each new pod and may call change; nil: pods run at once.
	kubelet func(name string)
	// refuse answers a request in place of the server, or returns nil. It is called before anything
	// happens.
	refuse func(r *http.Request) error
	// lose reports whether the answer to a request is lost after it was carried out.
	lose func(r *http.Request) bool

	mu        sync.Mutex
	version   int
	minor     string // of the version of Kubernetes
	pods      map[string]*corev1.Pod
	policies  []networkingv1.NetworkPolicy
	quotas    []corev1.ResourceQuota
	nodes     []string // their architectures; nil: listing them is forbidden
	events    []watchEvent
	oldest    int           // the version since which events are kept
	news      chan struct{} // is closed with each event
	dropped   chan struct{} // is closed to end all watches
	calls     map[string]int
	denied    map[string]bool // "create pods/exec"
	namespace bool
}

type watchEvent struct {
	Type    string      `json:"type"`
	Object  *corev1.Pod `json:"object"`
	version int
}

const fakeNamespace = "evals"

func newFakeAPI(t testing.TB) *fakeAPI {
	f := &fakeAPI{pods: map[string]*corev1.Pod{}, news: make(chan struct{}), dropped: make(chan struct{}), calls: map[string]int{}, denied: map[string]bool{}, namespace: true}
	mux := http.NewServeMux()
	of := "/api/v1/namespaces/" + fakeNamespace
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]string{"major": "1", "minor": f.minor})
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", f.review)
	mux.HandleFunc("GET "+of, func(w http.ResponseWriter, _ *http.Request) {
		namespaces := schema.GroupResource{Resource: "namespaces"}
		switch {
		case f.denied["get namespaces"]:
			answerError(w, apierrors.NewForbidden(namespaces, fakeNamespace, errors.New("no")))
		case !f.namespace:
			answerError(w, apierrors.NewNotFound(namespaces, fakeNamespace))
		default:
			answer(w, 200, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}})
		}
	})
	mux.HandleFunc("POST "+of+"/pods", f.create)
	mux.HandleFunc("GET "+of+"/pods", f.list)
	mux.HandleFunc("GET /api/v1/pods", f.list)
	mux.HandleFunc("GET "+of+"/pods/{name}", f.get)
	mux.HandleFunc("PATCH "+of+"/pods/{name}", f.patch)
	mux.HandleFunc("DELETE "+of+"/pods/{name}", f.remove)
	mux.HandleFunc("GET "+of+"/resourcequotas", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			f.watchQuotas(w, r)
			return
		}
		answer(w, 200, &corev1.ResourceQuotaList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuotaList"}, Items: f.quotas})
	})
	mux.HandleFunc("GET "+of+"/limitranges", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, &corev1.LimitRangeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRangeList"}})
	})
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		if f.nodes == nil {
			answerError(w, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no")))
			return
		}
		wanted, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
		list := metav1.PartialObjectMetadataList{}
		for _, arch := range f.nodes {
			l := map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: arch, "pool": arch}
			if wanted.Matches(labels.Set(l)) {
				list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: l}})
			}
		}
		answer(w, 200, &list)
	})
	policies := "/apis/networking.k8s.io/v1/namespaces/" + fakeNamespace + "/networkpolicies"
	mux.HandleFunc("GET "+policies, f.listPolicies)
	mux.HandleFunc("POST "+policies, f.createPolicy)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.calls[callName(r)]++
		f.mu.Unlock()
		if f.refuse != nil {
			if err := f.refuse(r); err != nil {
				answerError(w, err)
				return
			}
		}
		if f.lose != nil && f.lose(r) {
			mux.ServeHTTP(httptest.NewRecorder(), r)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.dropWatches()
		f.Close()
	})
	return f
}

// callName returns a name for a kind of request.
func callName(r *http.Request) string {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"+fakeNamespace+"/")
	kind, _, one := strings.Cut(path, "/")
	switch {
	case strings.HasPrefix(path, "/"):
		parts := strings.Split(path, "/")
		kind = parts[len(parts)-1]
	case one:
		kind += "/NAME"
	case r.URL.Query().Get("watch") != "":
		kind += "?watch"
	case r.URL.Query().Get("dryRun") != "":
		kind += "?dryRun"
	}
	return r.Method + " " + kind
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func answerError(w http.ResponseWriter, err error) {
	status := &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: err.Error(), Status: metav1.StatusFailure}
	if known, ok := err.(apierrors.APIStatus); ok { // they are not wrapped here
		own := known.Status()
		status = &own
	}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(status.Code), status)
}

// watchQuotas sends the quotas with each event of a pod. All of them count pods.
func (f *fakeAPI) watchQuotas(w http.ResponseWriter, r *http.Request) {
	for {
		f.mu.Lock()
		news, dropped, used := f.news, f.dropped, *resource.NewQuantity(int64(len(f.pods)), resource.DecimalSI)
		f.mu.Unlock()
		for _, q := range f.quotas {
			q.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}
			q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: used}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": q})
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-news:
		case <-dropped:
			return
		case <-r.Context().Done():
			return
		}
	}
}

var podResource = schema.GroupResource{Resource: "pods"}

func (f *fakeAPI) review(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SelfSubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	a := review.Spec.ResourceAttributes
	what := a.Verb + " " + strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")
	f.mu.Lock()
	review.Status.Allowed = !f.denied[what]
	f.mu.Unlock()
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	answer(w, 201, &review)
}

func (f *fakeAPI) create(w http.ResponseWriter, r *http.Request) {
	pod := &corev1.Pod{}
	if err := json.NewDecoder(r.Body).Decode(pod); err != nil {
		answerError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	f.mu.Lock()
	switch {
	case !f.namespace:
		f.mu.Unlock()
		answerError(w, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, fakeNamespace))
		return
	case f.pods[pod.Name] != nil:
		f.mu.Unlock()
		answerError(w, apierrors.NewAlreadyExists(podResource, pod.Name))
		return
	}
	pod.UID, pod.Status.Phase = types.UID(fmt.Sprintf("uid-%d", f.version)), corev1.PodPending
	if r.URL.Query().Get("dryRun") == "" {
		f.store("ADDED", pod)
	}
	made := pod.DeepCopy()
	f.mu.Unlock()
	answer(w, 201, made)
	if r.URL.Query().Get("dryRun") != "" {
		return
	}
	if f.kubelet != nil {
		go f.kubelet(pod.Name)
	} else {
		f.change(pod.Name, running)
	}
}

// running is the status of a pod that runs.
func running(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status.Phase, pod.Status.PodIP = "node", corev1.PodRunning, "10.0.0.1"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// store keeps a pod and tells watches. The lock is held.
func (f *fakeAPI) store(event string, pod *corev1.Pod) {
	f.version++
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.ResourceVersion = strconv.Itoa(f.version)
	f.pods[pod.Name] = pod
	f.events = append(f.events, watchEvent{event, pod.DeepCopy(), f.version})
	close(f.news)
	f.news = make(chan struct{})
}

// change changes a pod as a kubelet or a scheduler does.
func (f *fakeAPI) change(name string, do func(*corev1.Pod)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pod := f.pods[name]; pod != nil {
		own := pod.DeepCopy()
		do(own)
		f.store("MODIFIED", own)
	}
}

func (f *fakeAPI) deletePod(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := f.pods[name]
	if pod == nil {
		return false
	}
	f.store("DELETED", pod.DeepCopy())
	delete(f.pods, name)
	return true
}

// names returns the names of the pods that are there.
func (f *fakeAPI) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.pods))
}

// dropWatches ends all watches, and forgets what has happened: who watches has to list again.
func (f *fakeAPI) dropWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events, f.oldest = nil, f.version
	close(f.dropped)
	f.dropped = make(chan struct{})
}

func (f *fakeAPI) get(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	pod := f.pods[r.PathValue("name")].DeepCopy()
	f.mu.Unlock()
	if pod == nil {
		answerError(w, apierrors.NewNotFound(podResource, r.PathValue("name")))
		return
	}
	answer(w, 200, pod)
}

func (f *fakeAPI) patch(w http.ResponseWriter, r *http.Request) {
	patch, _ := io.ReadAll(r.Body)
	f.change(r.PathValue("name"), func(pod *corev1.Pod) {
		before, _ := json.Marshal(pod)
		after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{}) // of metadata, it is the same as a merge patch
		*pod = corev1.Pod{}
		if err := errors.Join(err, json.Unmarshal(after, pod)); err != nil {
			panic(err)
		}
	})
	f.get(w, r)
}

func (f *fakeAPI) remove(w http.ResponseWriter, r *http.Request) {
	if !f.deletePod(r.PathValue("name")) {
		answerError(w, apierrors.NewNotFound(podResource, r.PathValue("name")))
		return
	}
	answer(w, 200, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		answerError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if r.URL.Query().Get("watch") != "" {
		f.watch(w, r, selector)
		return
	}
	f.mu.Lock()
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	list.ResourceVersion = strconv.Itoa(f.version)
	for _, name := range slices.Sorted(maps.Keys(f.pods)) {
		if selector.Matches(labels.Set(f.pods[name].Labels)) {
			list.Items = append(list.Items, *f.pods[name])
		}
	}
	f.mu.Unlock()
	answer(w, 200, list)
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, selector labels.Selector) {
	if r.URL.Query().Get("sendInitialEvents") != "" { // as servers before 1.32
		answerError(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
		return
	}
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		f.mu.Lock()
		if seen < f.oldest {
			f.mu.Unlock()
			_ = out.Encode(map[string]any{"type": "ERROR", "object": metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version",
			}})
			return
		}
		i, _ := slices.BinarySearchFunc(f.events, seen+1, func(e watchEvent, v int) int { return e.version - v })
		events, news, dropped := f.events[i:], f.news, f.dropped
		f.mu.Unlock()
		for _, e := range events {
			seen = e.version
			if selector.Matches(labels.Set(e.Object.Labels)) {
				_ = out.Encode(e)
			}
		}
		if len(events) > 0 {
			_ = flush.Flush()
			continue
		}
		select {
		case <-news:
		case <-dropped:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeAPI) listPolicies(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer(w, 200, &networkingv1.NetworkPolicyList{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicyList"}, Items: f.policies})
}

func (f *fakeAPI) createPolicy(w http.ResponseWriter, r *http.Request) {
	var policy networkingv1.NetworkPolicy
	_ = json.NewDecoder(r.Body).Decode(&policy)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.policies = append(f.policies, policy)
	answer(w, 201, &policy)
}

// calls returns how often a kind of request was made.
func (f *fakeAPI) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// connect returns a Provider of the server whose images and guests are pretended.
func (f *fakeAPI) connect(t testing.TB, cfg map[string]any, opts Options) (*Provider, error) {
	t.Helper()
	conf, err := parseConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	silence()
	p, err := newProvider(t.Context(), conf, connection{config: &rest.Config{Host: f.URL}, namespace: fakeNamespace, about: "the test's cluster"}, opts)
	if err != nil {
		return nil, err
	}
	p.images = fakeImages{}
	p.begin = func(context.Context, podinit.Dialer, podinit.Options) (inContainer, error) { return &fakeGuest{}, nil }
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p, nil
}

func (f *fakeAPI) provider(t testing.TB, cfg map[string]any) *Provider {
	t.Helper()
	p, err := f.connect(t, cfg, Options{HelperImage: "helper"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fakeImages are images that all exist.
type fakeImages struct{ imageSource }

func (fakeImages) Config(_ context.Context, ref string) (registryimage.Image, error) {
	return registryimage.Image{Ref: ref, Digest: "sha256:" + ref}, nil
}

func (fakeImages) Close() error { return nil }

// fakeGuest is a guest to which nothing happens.
type fakeGuest struct {
	inContainer
	reaches     func() bool
	connections func() []string
	proxied     []environment.Network
	closed      atomic.Bool
}

func (g *fakeGuest) Close() { g.closed.Store(true) }

func (*fakeGuest) Exec(context.Context, string, environment.ExecOptions) (int, error) { return 0, nil }

func (*fakeGuest) KillAll(context.Context) error { return nil }
func (*fakeGuest) Stay(context.Context) error    { return nil }

func (g *fakeGuest) Reaches(context.Context, string) (bool, error) { return g.reaches(), nil }

func (g *fakeGuest) Connections(context.Context) ([]string, error) {
	if g.connections == nil {
		return nil, nil
	}
	return g.connections(), nil
}

func (g *fakeGuest) SetProxy(_ context.Context, n environment.Network) error {
	g.proxied = append(g.proxied, n)
	return nil
}

var fakeLabels = environment.Labels{Job: "job", Trial: "a/b__1", Owner: environment.Owner{Host: "h", PID: 1}}

func fakeOptions() environment.CreateOptions {
	return environment.CreateOptions{Image: "image", Labels: fakeLabels, Limits: environment.Limits{MilliCPUs: 100, Memory: 1 << 28}}
}

// soon fails the test if a condition does not come.
func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 18000 { // clusters take a minute to notice some things
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it does not come: %s", what)
}
