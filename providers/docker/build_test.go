package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/testenv"
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
				if environment.KindOf(err) != environment.KindBuild || environment.IsTransient(err) != test.transient {
					t.Errorf("kind %q, transient %t, want build, %t", environment.KindOf(err), environment.IsTransient(err), test.transient)
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
	key := ""
	for waiting(p, key) < 2 {
		p.flights.mu.Lock()
		for k := range p.flights.now {
			key = k
		}
		p.flights.mu.Unlock()
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

func TestDigest(t *testing.T) {
	base := func() fstest.MapFS {
		return fstest.MapFS{
			"Dockerfile": {Data: []byte("FROM x"), Mode: 0o644},
			"a/b":        {Data: []byte("b"), Mode: 0o644},
			"link":       {Data: []byte("a/b"), Mode: fs.ModeSymlink | 0o777},
		}
	}
	digests := map[string]string{}
	for name, change := range map[string]func(fstest.MapFS) (map[string]string, string){
		"nothing": func(fstest.MapFS) (map[string]string, string) { return nil, "" },
		"dockerfile": func(m fstest.MapFS) (map[string]string, string) {
			m["Dockerfile"].Data = []byte("FROM y")
			return nil, ""
		},
		"content": func(m fstest.MapFS) (map[string]string, string) { m["a/b"].Data = []byte("c"); return nil, "" },
		"mode":    func(m fstest.MapFS) (map[string]string, string) { m["a/b"].Mode = 0o755; return nil, "" },
		"link":    func(m fstest.MapFS) (map[string]string, string) { m["link"].Data = []byte("a"); return nil, "" },
		"path": func(m fstest.MapFS) (map[string]string, string) {
			m["a/c"] = m["a/b"]
			delete(m, "a/b")
			return nil, ""
		},
		"directory": func(m fstest.MapFS) (map[string]string, string) {
			m["d"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			return nil, ""
		},
		"arguments": func(fstest.MapFS) (map[string]string, string) { return map[string]string{"A": "b"}, "" },
		"platform":  func(fstest.MapFS) (map[string]string, string) { return nil, "linux/arm64" },
	} {
		tree := base()
		args, platform := change(tree)
		content, err := readContext(tree)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := content.digest(t.Context(), args, platform)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := digests[digest]; taken {
			t.Errorf("a change of %s and of %s give one digest", name, other)
		}
		digests[digest] = name
	}
	tree := base()
	tree[".dockerignore"] = &fstest.MapFile{Data: []byte("*.log\n")}
	before, err := readContext(tree)
	if err != nil {
		t.Fatal(err)
	}
	tree["x.log"] = &fstest.MapFile{Data: []byte("x"), ModTime: time.Now()}
	tree["a/b"].ModTime = time.Now()
	after, err := readContext(tree)
	if err != nil {
		t.Fatal(err)
	}
	one, err1 := before.digest(t.Context(), nil, "")
	two, err2 := after.digest(t.Context(), nil, "")
	if one != two || errors.Join(err1, err2) != nil {
		t.Errorf("what is ignored, or times, changed the digest: %v", errors.Join(err1, err2))
	}
}

func TestContextRefusesDevices(t *testing.T) {
	content, err := readContext(fstest.MapFS{"Dockerfile": {}, "p": {Mode: fs.ModeNamedPipe}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := content.digest(t.Context(), nil, ""); err == nil || err.Error() != "p: only files, directories and links can be part of a build" {
		t.Error(err)
	}
}

func TestImageName(t *testing.T) {
	for name, want := range map[string]string{
		"": "task", "hello": "hello", "Org/My Task": "org-my-task", "-._a__b.": "a-b", "日本": "task", "../../up": "up",
		strings.Repeat("ab-", 40): strings.Repeat("ab-", 20)[:59],
	} {
		if got := imageName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestBaseImages(t *testing.T) {
	for _, test := range []struct {
		name, dockerfile, want string
		args                   map[string]string
	}{
		{"one", "FROM debian:12\nRUN x", "[debian:12]", nil},
		{"stages and scratch are none", "FROM a AS one\nFROM One AS two\nFROM scratch\nFROM --platform=linux/amd64 b", "[a b]", nil},
		{"arguments are filled in", "ARG A=x\nARG B=${A}:1\nFROM $B", "[x:1]", nil},
		{"given arguments win", "ARG A=x\nFROM ${A:-y}:1\nARG A=z\nFROM $A", "[q:1 q]", map[string]string{"A": "q"}},
		{"nonsense has none", "FROM\n", "[]", nil},
	} {
		if got := fmt.Sprint(baseImages([]byte(test.dockerfile), test.args)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestWithoutSyntax(t *testing.T) {
	for _, test := range []struct{ in, out, ref string }{
		{"FROM x\n", "FROM x\n", ""},
		{"# syntax=docker/dockerfile:1\nFROM x\n", "#\nFROM x\n", "docker/dockerfile:1"},
		{"# escape=`\n#syntax = a/b:c\nFROM x\n", "# escape=`\n#\nFROM x\n", "a/b:c"},
		{"FROM x\n# syntax=late\n", "FROM x\n# syntax=late\n", ""},
	} {
		out, ref := withoutSyntax([]byte(test.in))
		if string(out) != test.out || ref != test.ref {
			t.Errorf("%q: %q, %q", test.in, out, ref)
		}
	}
}

func TestShowStatus(t *testing.T) {
	now := time.Now()
	status := make(chan *client.SolveStatus, 10)
	step := func(name string, cached bool) *client.Vertex {
		return &client.Vertex{Digest: digest.FromString(name), Name: name, Started: &now, Cached: cached}
	}
	log := func(name, text string) *client.VertexLog {
		return &client.VertexLog{Vertex: digest.FromString(name), Data: []byte(text)}
	}
	status <- &client.SolveStatus{Vertexes: []*client.Vertex{step("one", false), {Digest: digest.FromString("later"), Name: "later"}}}
	status <- &client.SolveStatus{Vertexes: []*client.Vertex{step("one", false), step("two", true)}}
	status <- &client.SolveStatus{Logs: []*client.VertexLog{log("one", "a\nhal"), log("two", "other\n"), log("one", "f\n10%\r50%\r\nend")}}
	close(status)
	var shown bytes.Buffer
	out := lines{progress: func(line string) { shown.WriteString(line + "|") }}
	showStatus(status, &out)
	if want := "one|two (cached)|a|other|half|50%|end|"; shown.String() != want {
		t.Errorf("got %s, want %s", &shown, want)
	}
}

func TestLinesKeepBothEnds(t *testing.T) {
	var out lines
	for i := range 50 {
		out.text(fmt.Sprintf("line %d\n", i))
	}
	out.text(strings.Repeat("x", 3000))
	out.end()
	tail := strings.Split(out.tail(), "\n")
	if len(tail) != headLines+1+tailLines || tail[0] != "line 0" || tail[4] != "line 4" || tail[5] != "[123 bytes are left out here]" || tail[6] != "line 21" ||
		tail[35] != strings.Repeat("x", maxLineLen/2)+" […1000 bytes…] "+strings.Repeat("x", maxLineLen/2) {
		t.Errorf("%d lines: %q", len(tail), tail)
	}
}
