package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

func TestPodsFollowTheNodes(t *testing.T) {
	own, other, third := runtime.GOARCH, "riscv64", "s390x"
	for _, tc := range []struct {
		name   string
		nodes  []string
		config map[string]any
		want   string // the architecture
		fails  []string
	}{
		{"nobody may list nodes", nil, nil, own, nil},
		{"there is no node yet", []string{}, nil, own, nil},
		{"nodes like this machine", []string{own}, nil, own, nil},
		{"among others", []string{other, own, third}, nil, own, nil},
		{"all are of another architecture", []string{other, other}, nil, other, nil},
		{"those that are selected are", []string{own, other}, map[string]any{"node_selector": map[string]any{"pool": other}}, other, nil},
		{"of several others", []string{third, other}, nil, "", []string{"no node is for linux/" + own, "riscv64 and s390x", "node_selector: {kubernetes.io/arch: riscv64}"}},
		{"what is configured, though there is no such node yet", []string{own}, map[string]any{"node_selector": map[string]any{"kubernetes.io/arch": third}}, third, nil},
		{"Rollout's own program is missing for it", []string{other}, map[string]any{"registry": "registry.example/evals"}, "", []string{"no part of rollout can be run in containers of linux/riscv64", "helper_image"}},
		{"unless there is an image with it", []string{other}, map[string]any{"registry": "registry.example/evals", "helper_image": "registry.example/rollout"}, other, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.nodes = tc.nodes
			p, err := f.connect(t, tc.config, Options{HelperImage: "helper"})
			if len(tc.fails) > 0 {
				for _, want := range tc.fails {
					if environment.KindOf(err) != environment.KindUnavailable || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want %q", err, want)
					}
				}
				if !refused(err) {
					t.Errorf("not refused: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.CreateEnvironment(t.Context(), fakeOptions()); err != nil {
				t.Fatal(err)
			}
			for _, pod := range f.pods {
				if got := pod.Spec.NodeSelector[corev1.LabelArchStable]; got != tc.want {
					t.Errorf("pods are for %s, want %s", got, tc.want)
				}
			}
		})
	}
}

// foreignImages are images for other nodes, but for one that cannot be read.
type foreignImages struct{ fakeImages }

func (foreignImages) Config(_ context.Context, ref string) (registryimage.Image, error) {
	if ref == "unreadable" {
		return registryimage.Image{}, &environment.Error{Kind: environment.KindPull, Err: errors.New("the registry does not answer")}
	}
	return registryimage.Image{}, &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("image %s: %w", ref, registryimage.ErrPlatform)}
}

func (i foreignImages) CheckBuild(ctx context.Context, opts environment.BuildOptions) error {
	_, err := i.Config(ctx, opts.Name)
	return err
}

func TestImagesThatNoPodCanHave(t *testing.T) {
	remedy := "nodes for linux/" + runtime.GOARCH + ": use an image for them, or choose others with node_selector"
	pull := func(ref string) func(*Provider) error {
		return func(p *Provider) error { return p.CheckPull(t.Context(), ref) }
	}
	build := func(p *Provider) error { return p.CheckBuild(t.Context(), environment.BuildOptions{Name: "task"}) }
	for _, tc := range []struct {
		name     string
		images   imageSource
		registry bool
		check    func(*Provider) error
		want     []string
	}{
		{"an image for the nodes", fakeImages{}, false, pull("a"), nil},
		{"an image for other nodes", foreignImages{}, false, pull("a"), []string{"image a: the image is not for this platform", remedy}},
		{"an image that cannot be read", foreignImages{}, false, pull("unreadable"), nil},
		{"a Dockerfile without a registry", fakeImages{}, false, build, []string{"there is no registry for images of Dockerfiles", "set environment.provider_config.registry"}},
		{"a Dockerfile on a base for other nodes", foreignImages{}, true, build, []string{"image task: the image is not for this platform", remedy}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := map[string]any{}
			if tc.registry {
				cfg["registry"] = "registry.example/evals"
			}
			p := newFakeAPI(t).provider(t, cfg)
			p.images = tc.images
			err := tc.check(p)
			if tc.want == nil && err != nil {
				t.Errorf("error %v", err)
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
}
