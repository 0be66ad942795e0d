package kubernetes

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// nothing is a connection on which nothing comes.
type nothing struct {
	io.ReadWriter
	closed atomic.Bool
}

func (n *nothing) Close() error { n.closed.Store(true); return nil }

// initialized has a pod's init containers ended, and its main container not running yet.
func initialized(pod *corev1.Pod, code int32) {
	pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodPending
	pod.Status.InitContainerStatuses = nil
	for _, c := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		})
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: mainContainer, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
	}}
}

func TestGuestIsDialedBeforeTheNodeSaysThatItRuns(t *testing.T) {
	for name, refusals := range map[string]int32{"at once": 0, "after it was not there yet": 2} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.kubelet = func(name string) { f.change(name, func(pod *corev1.Pod) { initialized(pod, 0) }) } // and says nothing more
			p := f.provider(t, nil)
			var asked atomic.Int32
			conn := &nothing{}
			p.exec = func(context.Context, string, string, string, ...string) (io.ReadWriteCloser, error) {
				if asked.Add(1) <= refusals {
					return nil, errors.New("container not found")
				}
				return conn, nil
			}
			p.begin = func(ctx context.Context, dial podinit.Dialer, _ podinit.Options) (inContainer, error) {
				if got, err := dial(ctx); got != io.ReadWriteCloser(conn) || err != nil {
					t.Errorf("dialed %v, %v", got, err)
				}
				return &fakeGuest{}, nil
			}
			env, err := p.CreateEnvironment(t.Context(), fakeOptions())
			if err != nil {
				t.Fatal(err)
			}
			_ = env.Destroy(t.Context())
			if n := asked.Load(); n != refusals+1 || conn.closed.Load() {
				t.Errorf("%d connections were tried; closed: %t", n, conn.closed.Load())
			}
		})
	}
	t.Run("a container that takes longer", func(t *testing.T) {
		f := newFakeAPI(t)
		f.kubelet = func(name string) { f.change(name, func(pod *corev1.Pod) { initialized(pod, 0) }) }
		p := f.provider(t, nil)
		var asked atomic.Int32
		p.exec = func(context.Context, string, string, string, ...string) (io.ReadWriteCloser, error) {
			if asked.Add(1) == int32(len(earlyPauses)) {
				go f.change(f.names()[0], running)
			}
			return nil, errors.New("container not found")
		}
		env, err := p.CreateEnvironment(t.Context(), fakeOptions())
		if err != nil {
			t.Fatal(err)
		}
		_ = env.Destroy(t.Context())
		if n := asked.Load(); n != int32(len(earlyPauses)) {
			t.Errorf("%d connections were tried", n)
		}
	})
	t.Run("a pod that ends meanwhile", func(t *testing.T) {
		f := newFakeAPI(t)
		f.kubelet = func(name string) { f.change(name, func(pod *corev1.Pod) { initialized(pod, 0) }) }
		p := f.provider(t, nil)
		p.exec = func(ctx context.Context, _, name, _ string, _ ...string) (io.ReadWriteCloser, error) {
			f.deletePod(name)
			<-ctx.Done() // it is not waited for
			return nil, ctx.Err()
		}
		if _, err := p.CreateEnvironment(t.Context(), fakeOptions()); environment.KindOf(err) != environment.KindStart {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an init container that fails", func(t *testing.T) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: installContainer}}}}
		for code, want := range map[int32]bool{0: true, 1: false} {
			if initialized(pod, code); aboutToRun(pod) != want {
				t.Errorf("exit code %d: about to run %t", code, !want)
			}
		}
		if aboutToRun(&corev1.Pod{Spec: pod.Spec}) {
			t.Error("a pod without a status is about to run")
		}
	})
}
