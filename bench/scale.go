package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/kubernetes"
	"github.com/org/rollout-action/providers/kubernetes/kubernetestest"
)

// scale measures many pods at once, on a separate cluster whose nodes are fake.
func (b *bench) scale(ctx context.Context) (err error) {
	programs := os.Getenv("ROLLOUT_TEST_KUBERNETES")
	if programs == "" {
		return fmt.Errorf("%w: ROLLOUT_TEST_KUBERNETES names no directory with the programs of Kubernetes", errUnmeasurable)
	}
	c, err := kubernetestest.Start(ctx, programs, filepath.Join(b.dir, "scale"), scaleNodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ours, floor := b.inChild("scale", "pods"), b.inChild("scale", "pods-direct")
	if err := b.measure(ctx, measuring{"scale.start", perSecond(scalePods, ours), perSecond(scalePods, floor)}); err != nil {
		return err
	}
	var memory, calls [2][]float64
	for i, of := range []struct{ work, user string }{{"pods", kubernetestest.Ours}, {"pods-direct", kubernetestest.Bare}} {
		for _, peak := range b.peaks[of.work] {
			memory[i] = append(memory[i], peak/scalePods)
		}
		made, err := c.Calls(of.user)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.stderr, "bench: the calls of %s: %v\n", of.user, made)
		all := 0.0
		for call, times := range made {
			if call != kubernetestest.Refused {
				all += float64(times)
			}
		}
		calls[i] = []float64{all / scalePods / float64(len(memory[i]))}
	}
	b.add("scale.memory", memory[:]...)
	b.add("scale.calls", calls[:]...)
	return nil
}

// crowd starts pods in their own namespace.
type crowd struct {
	namespace string
	// open starts a pod and returns when it has responded. The pod accepts more commands until end,
	// which removes it.
	open  func(ctx context.Context) (end func(ctx context.Context) error, err error)
	close func() error
}

// runPods returns the work of a child: to start all pods of a crowd at once, in the cluster whose
// directory is above the work's, and measure the time until the last one has responded.
func runPods(gather func(context.Context, *kubernetestest.Cluster) (*crowd, error)) func(context.Context, *bench) ([]float64, error) {
	return func(ctx context.Context, b *bench) ([]float64, error) {
		c := kubernetestest.At(filepath.Dir(b.dir))
		pods, err := gather(ctx, c)
		if err != nil {
			return nil, err
		}
		took, err := fill(ctx, c, pods, scalePods)
		return []float64{took}, errors.Join(err, pods.close())
	}
}

// fill starts count pods at once, and returns the milliseconds until the last one has responded. It
// fails if one of them does not, or if one is left after all were removed.
func fill(ctx context.Context, c *kubernetestest.Cluster, pods *crowd, count int) (float64, error) {
	ends := make([]func(context.Context) error, count)
	took, err := timed(func(ctx context.Context) error {
		return each(ctx, count, count, func(ctx context.Context, i int) (err error) {
			ends[i], err = pods.open(ctx)
			return err
		})
	})(ctx)
	errs := make([]error, count+1)
	errs[count] = err
	var all sync.WaitGroup
	for i, end := range ends {
		if end != nil {
			all.Go(func() { errs[i] = end(context.WithoutCancel(ctx)) })
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	client, err := c.Client()
	if err != nil {
		return 0, err
	}
	left, err := client.CoreV1().Pods(pods.namespace).List(ctx, metav1.ListOptions{})
	if err == nil && len(left.Items) > 0 {
		err = fmt.Errorf("%d pods are left", len(left.Items))
	}
	return took, err
}

// onCluster returns the provider for a namespace as a user, and the image.
func onCluster(ctx context.Context, c *kubernetestest.Cluster, user, namespace string) (*stage, error) {
	image, err := c.Image()
	if err != nil {
		return nil, err
	}
	provider, err := kubernetes.New(ctx, map[string]any{"kubeconfig": c.Kubeconfig(user), "namespace": namespace, "helper_image": image}, kubernetes.Options{})
	return &stage{image: image, provider: provider}, err
}

// environments returns environments of Rollout.
func environments(ctx context.Context, c *kubernetestest.Cluster) (*crowd, error) {
	admin, err := c.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := newNamespace(ctx, admin)
	if err != nil {
		return nil, err
	}
	s, err := onCluster(ctx, c, kubernetestest.Ours, namespace)
	if err != nil {
		return nil, err
	}
	var number atomic.Int64
	return &crowd{namespace: namespace, close: s.provider.Close, open: func(ctx context.Context) (func(context.Context) error, error) {
		env, err := s.provider.CreateEnvironment(ctx, environment.CreateOptions{
			Image: s.image, Labels: environment.Labels{Job: "scale", Trial: fmt.Sprint(number.Add(1)), Owner: environment.Self()},
		})
		if err != nil {
			return nil, err
		}
		code, err := env.Exec(ctx, ":", environment.ExecOptions{})
		if err == nil && code != 0 {
			err = fmt.Errorf("the command ended with %d", code)
		}
		return env.Destroy, err
	}}, nil
}

// echoes returns pods like the provider's, which are created, watched, used and deleted only with
// client-go.
func echoes(ctx context.Context, c *kubernetestest.Cluster) (*crowd, error) {
	config, err := c.Config(kubernetestest.Bare)
	if err != nil {
		return nil, err
	}
	p, err := newBarePods(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := onCluster(ctx, c, kubernetestest.Admin, p.namespace)
	if err == nil {
		err = errors.Join(p.prepare(ctx, s), s.provider.Close())
	}
	if err != nil {
		return nil, err
	}
	return &crowd{namespace: p.namespace, close: func() error { p.close(); return nil }, open: p.echo}, nil
}

// echo starts a pod and has a command in it echo a word. The command keeps running until end.
func (p *barePods) echo(ctx context.Context) (end func(context.Context) error, err error) {
	name, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	const word = "word"
	asked, in := io.Pipe()
	out, answered := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := p.exec(context.WithoutCancel(ctx), name, remotecommand.StreamOptions{Stdin: asked, Stdout: answered, Stderr: io.Discard}, kubernetestest.Echo)
		answered.CloseWithError(err)
		asked.CloseWithError(err)
		ended <- err
	}()
	end = func(ctx context.Context) error {
		in.Close()
		return errors.Join(<-ended, p.remove(ctx, name))
	}
	got := make([]byte, len(word))
	if _, err = io.WriteString(in, word); err == nil {
		_, err = io.ReadFull(out, got)
	}
	if err == nil && string(got) != word {
		err = fmt.Errorf("the pod answered %q", got)
	}
	return end, err
}
