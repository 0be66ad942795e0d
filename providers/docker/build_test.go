package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

// eachBuilder runs a test with both builders.
func eachBuilder(t *testing.T, test func(t *testing.T, p *Provider)) {
	for _, buildkit := range []bool{true, false} {
		t.Run(map[bool]string{true: "buildkit", false: "classic"}[buildkit], func(t *testing.T) {
			p := newProvider(t, nil)
			if has, err := p.hasBuildKit(t.Context()); err != nil {
				t.Fatal(err)
			} else if buildkit && !has {
				testenv.Lacks(t, "docker", "an engine with BuildKit")
			}
			p.buildkit = &buildkit
			test(t, p)
		})
	}
}

func forget(t *testing.T, p *Provider, ref string) {
	t.Cleanup(func() {
		_, _ = p.api.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true, PruneChildren: true})
	})
}

func TestBuilders(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		dir := t.TempDir()
		err := errors.Join(
			os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(`FROM `+testImage+`
ARG WHO=nobody
COPY . /ctx/
RUN echo "hello $WHO from `+t.Name()+`" > /hello; echo "said on the way"
`), 0o644),
			os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte("Dockerfile\n.dockerignore\n*.log\n!keep.log\nlocal\n"), 0o644),
			os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/bash\necho ran\n"), 0o755),
			os.WriteFile(filepath.Join(dir, "x.log"), nil, 0o644),
			os.WriteFile(filepath.Join(dir, "keep.log"), nil, 0o600),
			os.MkdirAll(filepath.Join(dir, "local", "deep"), 0o755),
			os.Symlink("run.sh", filepath.Join(dir, "link")),
			os.Symlink("/etc/shadow", filepath.Join(dir, "outside")),
		)
		if err != nil {
			t.Fatal(err)
		}
		var progress []string
		opts := environment.BuildOptions{
			Context: os.DirFS(dir), Name: "Docker Test/Ünï", Args: map[string]string{"WHO": "ann"},
			Progress: func(line string) { progress = append(progress, line) },
		}
		ref, err := p.BuildImage(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		forget(t, p, ref)
		if !strings.HasPrefix(ref, "rollout/docker-test-n:") || len(ref) != len("rollout/docker-test-n:")+tagDigits {
			t.Errorf("reference %q", ref)
		}
		if text := strings.Join(progress, "\n"); !strings.Contains(text, "said on the way") {
			t.Errorf("progress:\n%s", text)
		}
		made, err := p.api.ImageInspect(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := made.Config.Labels[environment.LabelJob]; !ok {
			t.Errorf("labels %v", made.Config.Labels)
		}
		env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
		got := run(t, env, "cat /hello; cd /ctx; find . -mindepth 1 -printf '%p %m %u %l\\n' | sort; ./link")
		want := "hello ann from " + t.Name() + "\n./keep.log 600 root \n./link 777 root run.sh\n./outside 777 root /etc/shadow\n./run.sh 755 root \nran\n"
		if got != want {
			t.Errorf("in the image\n%swant\n%s", got, want)
		}

		opts.NoCache = true
		again, err := p.BuildImage(t.Context(), opts)
		if err != nil || again != ref {
			t.Errorf("without cache: %q, %v", again, err)
		}
		if second, err := p.api.ImageInspect(t.Context(), ref); err != nil || second.ID == made.ID {
			t.Errorf("not built again: %v, %v", second.ID, err)
		}
		if err := env.Destroy(t.Context()); err != nil { // it holds on to the first image
			t.Fatal(err)
		}
		forget(t, p, made.ID)
	})
}

func TestFailingBuilds(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		r := newRegistry(t, p)
		for _, test := range []struct {
			name, dockerfile string
			transient        bool
			says             []string
		}{
			{"a command that fails shows its output and code", "FROM " + testImage + "\nRUN echo " + t.Name() + " broke here; exit 7",
				false, []string{"broke here", "7"}},
			{"a base image that does not exist is named", "ARG TAG=nope\nFROM " + r.host + "/no/such:${TAG}\nRUN true",
				false, []string{"base image " + r.host + "/no/such:nope: there is no such image"}},
			{"a base image whose registry is down may be there later", "FROM 127.0.0.1:1/some/thing:1\nRUN true",
				true, []string{"base image 127.0.0.1:1/some/thing:1: its registry cannot be reached"}},
			{"a base image that is no reference is named", "FROM No/Such/Thing:x", false, []string{"No/Such/Thing"}},
			{"an unknown instruction is shown", "FROM " + testImage + "\nRUNN true", false, []string{"RUNN"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				_, err := p.BuildImage(t.Context(), environment.BuildOptions{
					Context: fstest.MapFS{"Dockerfile": {Data: []byte(test.dockerfile)}}, Name: "docker-test"})
				want := environment.KindBuild
				if test.transient {
					want = environment.KindPull
				}
				if environment.KindOf(err) != want || environment.IsTransient(err) != test.transient {
					t.Errorf("kind %q, transient %t, want %q, %t", environment.KindOf(err), environment.IsTransient(err), want, test.transient)
				}
				for _, text := range test.says {
					if !strings.Contains(fmt.Sprint(err), text) {
						t.Errorf("the error does not say %q:\n%v", text, err)
					}
				}
			})
		}
	})
}

// A base image that its registry has is not blamed for another instruction.
func TestFailingBuildsOnARegistrysImage(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		base := newRegistry(t, p).push(t, p, "some/base:1")
		_, err := p.BuildImage(t.Context(), environment.BuildOptions{
			Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM " + base + "\nRUNN true\n")}}, Name: "docker-test"})
		if environment.KindOf(err) != environment.KindBuild || !strings.Contains(fmt.Sprint(err), "RUNN") {
			t.Errorf("kind %q, want build: %v", environment.KindOf(err), err)
		}
	})
}

func TestBuildFromPrivateBase(t *testing.T) {
	eachBuilder(t, func(t *testing.T, p *Provider) {
		r := newRegistry(t, p)
		base := r.push(t, p, "private/base:1")
		r.requirePassword()
		r.configure(t, "secret")
		ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "docker-test",
			Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM " + base + "\nCOPY Dockerfile /\n")}}})
		if err != nil {
			t.Fatal(err)
		}
		forget(t, p, ref)
	})
}

// Without its image, a "# syntax=" line would be the only reason for a build to fail.
func TestBuildWithUnreachableSyntax(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		var progress strings.Builder
		ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "docker-test",
			Context:  fstest.MapFS{"Dockerfile": {Data: []byte("# syntax=127.0.0.1:1/docker/dockerfile:1\nFROM " + testImage + "\n# " + t.Name() + "\nRUN true\n")}},
			Progress: func(line string) { progress.WriteString(line + "\n") }})
		if err != nil {
			t.Fatal(err)
		}
		forget(t, p, ref)
		if told := strings.Contains(progress.String(), "127.0.0.1:1/docker/dockerfile:1 cannot be reached"); told != *p.buildkit {
			t.Errorf("progress:\n%s", &progress)
		}
	})
}

// A build without cache removes the image that it replaces, unless that has another name.
func TestBuildWithoutCacheRemovesWhatItReplaces(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		opts := environment.BuildOptions{Name: "docker-test", Context: fstest.MapFS{"Dockerfile": {
			Data: []byte("FROM " + testImage + "\n# " + time.Now().String() + "\nRUN date +%N >/date\n")}}}
		var ids []string
		kept := "docker-test-kept:" + strings.ToLower(rand.Text()) // others may test with the same engine
		for i := range 3 {
			opts.NoCache = i > 0
			ref, err := p.BuildImage(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			forget(t, p, ref)
			made, err := p.api.ImageInspect(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, made.ID)
			if i == 1 {
				if err := p.api.ImageTag(t.Context(), ref, kept); err != nil {
					t.Fatal(err)
				}
				forget(t, p, kept)
			}
		}
		for i, want := range []bool{false, true, true} {
			if has, err := p.hasImage(t.Context(), ids[i]); err != nil || has != want {
				t.Errorf("image %d is there: %t (%v), want %t", i, has, err, want)
			}
		}
	})
}

func TestOwnIgnoreFileWins(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		ref := buildImage(t, p, map[string]string{
			"Dockerfile":              "FROM " + testImage + "\n# " + t.Name() + "\nCOPY . /ctx/\n",
			"Dockerfile.dockerignore": "one\nDockerfile*\n.dockerignore\n",
			".dockerignore":           "two\n",
			"one":                     "1", "two": "2",
		})
		env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
		if got := run(t, env, "ls -A /ctx"); got != "two\n" {
			t.Errorf("in the image: %q", got)
		}
	})
}

// The caller who began a build may go while others wait for it.
func TestBuildOutlivesItsFirstCaller(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	opts := environment.BuildOptions{Name: "docker-test", Context: fstest.MapFS{"Dockerfile": {
		Data: []byte("FROM " + testImage + "\n# " + time.Now().String() + "\nRUN sleep 2\n")}}}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	begun := make(chan struct{}, 100)
	opts.Progress = func(string) { begun <- struct{}{} }
	build := func(ctx context.Context, done chan error) {
		ref, err := p.BuildImage(ctx, opts)
		if err == nil {
			forget(t, p, ref)
		}
		done <- err
	}
	go build(ctx, first)
	<-begun
	go build(t.Context(), second)
	for p.flights.Waiting() < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
}
