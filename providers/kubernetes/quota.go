package kubernetes

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/rollout-action/internal/lib/awake"
)

// quotaWait is the time after which the first pod that waits for a full quota tries again without a
// sign of room: this user may lack permission to watch quotas, or something else is full.
const quotaWait = 5 * time.Second

// quotaLine is a queue of pods that wait for room in the namespace's quotas. Only the first one
// tries, and only when a quota has room again: hundreds of waiting trials would otherwise
// keep the API server busy with refusals.
type quotaLine struct {
	client *client

	mu    sync.Mutex
	line  []*quotaPlace
	stop  context.CancelFunc // of the watch; nil: there is none
	sign  chan struct{}      // is closed when there may be a place
	usage map[string]corev1.ResourceQuota
}

// quotaPlace is one pod's place in the line.
type quotaPlace struct {
	sign    chan struct{} // of the line when it was refused last
	arrived chan struct{} // is closed when it is the first
}

func newQuotaLine(c *client) *quotaLine { return &quotaLine{client: c, sign: make(chan struct{})} }

// join appends a refused pod. seen is the sign channel that it took before the refusal.
func (q *quotaLine) join(seen chan struct{}) *quotaPlace {
	q.mu.Lock()
	defer q.mu.Unlock()
	place := &quotaPlace{sign: seen, arrived: make(chan struct{})}
	if q.line = append(q.line, place); len(q.line) == 1 {
		close(place.arrived)
	}
	if q.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		q.stop, q.usage = cancel, map[string]corev1.ResourceQuota{}
		go q.watch(ctx)
	}
	return place
}

// leave removes a pod. If it has got its place, the next one tries at once: there may be more of
// them.
func (q *quotaLine) leave(place *quotaPlace) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := len(q.line) > 0 && q.line[0] == place
	q.line = slices.DeleteFunc(q.line, func(other *quotaPlace) bool { return other == place })
	switch {
	case len(q.line) == 0:
		q.stop()
		q.stop = nil
	case first:
		next := q.line[0]
		next.sign = make(chan struct{})
		close(next.sign)
		close(next.arrived)
	}
}

// refused notes that the pod was refused again.
func (q *quotaLine) refused(place *quotaPlace, seen chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	place.sign = seen
}

// signal returns a channel that is closed at the next sign.
func (q *quotaLine) signal() chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sign
}

// freed signals that there may be a place.
func (q *quotaLine) freed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.sign)
	q.sign = make(chan struct{})
}

// turn waits until the pod is to ask again. over ends the wait, and ctx.
func (q *quotaLine) turn(ctx context.Context, place *quotaPlace, over <-chan struct{}) error {
	select {
	case <-place.arrived:
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	waiting, done := context.WithCancel(ctx)
	defer done()
	q.mu.Lock()
	sign := place.sign
	q.mu.Unlock()
	select {
	case <-sign:
	case <-awake.After(waiting, quotaWait):
	case <-over:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// watch signals when a quota has more room than before, until ctx ends.
func (q *quotaLine) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := q.watchOnce(ctx); apierrors.IsForbidden(err) {
			return
		}
		awake.Sleep(ctx, time.Second)
	}
}

func (q *quotaLine) watchOnce(ctx context.Context) error {
	list := &corev1.ResourceQuotaList{}
	if err := q.client.core.Get().Namespace(q.client.namespace).Resource("resourcequotas").Do(ctx).Into(list); err != nil {
		return err
	}
	for _, quota := range list.Items {
		q.note(quota)
	}
	opts := metav1.ListOptions{Watch: true, ResourceVersion: list.ResourceVersion}
	events, err := q.client.core.Get().Namespace(q.client.namespace).Resource("resourcequotas").VersionedParams(&opts, parameters).Watch(ctx)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if quota, ok := event.Object.(*corev1.ResourceQuota); ok {
			q.note(*quota)
		}
	}
	return nil
}

// note compares a quota with its last known state.
func (q *quotaLine) note(now corev1.ResourceQuota) {
	q.mu.Lock()
	before, known := q.usage[now.Name]
	q.usage[now.Name] = now
	q.mu.Unlock()
	if known && hasMoreRoom(before, now) {
		q.freed()
	}
}

// hasMoreRoom reports whether a quota has more room of something than before.
func hasMoreRoom(before, now corev1.ResourceQuota) bool {
	for name, hard := range now.Status.Hard {
		old, was := before.Status.Hard[name]
		used, usedBefore := now.Status.Used[name], before.Status.Used[name]
		if used.Cmp(usedBefore) < 0 || was && hard.Cmp(old) > 0 {
			return true
		}
	}
	return len(now.Status.Hard) < len(before.Status.Hard)
}
