package sandbox

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// nowhere is the reference of a missing image, in a registry that is not running.
const nowhere = "127.0.0.1:1/none:1"

// creatorKey makes this program create an environment of testImage with the configuration in its
// value, print "ok" and the environment's base, and remove it.
const creatorKey = "ROLLOUT_TEST_SANDBOX_CREATOR"

func init() { //nolint:gochecknoinits // TestMain is for all tests of the package
	if text := os.Getenv(creatorKey); text != "" {
		Init()
		if err := createOnce(text); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func createOnce(text string) error {
	ctx := context.Background()
	var cfg map[string]any
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	p, err := New(ctx, cfg, Options{})
	if err != nil {
		return err
	}
	if err := p.PullImage(ctx, testImage, func(line string) { fmt.Println("progress:", line) }); err != nil {
		return err
	}
	e, err := p.CreateEnvironment(ctx, environment.CreateOptions{Image: testImage})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	code, err := e.Exec(ctx, "grep -c root: /etc/passwd /etc/group; ls /usr/bin /etc | wc -l", environment.ExecOptions{Stdout: &out, Stderr: &out})
	if err != nil || code != 0 {
		return fmt.Errorf("exit code %d, error %w: %s", code, err, out.String())
	}
	fmt.Printf("ok: %q\n", out.String())
	return e.Destroy(ctx)
}

// creator returns a command whose process creates an environment.
func creator(t *testing.T, cfg map[string]any) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(cfg)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), creatorKey+"="+string(text))
	return cmd
}

func TestConcurrentProcessesShareLayers(t *testing.T) {
	t.Parallel()
	for name, cfg := range bothBases(t) {
		t.Run(name, func(t *testing.T) {
			cfg := cfg(t)
			cfg["dir"] = ownStoreDir(t)
			newProvider(t, cfg) // or the test is skipped
			outputs := make([]bytes.Buffer, 4)
			var started []*exec.Cmd
			for i := range outputs {
				cmd := creator(t, cfg)
				cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
				must(t, cmd.Start())
				started = append(started, cmd)
			}
			said := map[string]int{}
			for i, cmd := range started {
				if err := cmd.Wait(); err != nil {
					t.Errorf("%v: %s", err, &outputs[i])
				}
				lines := strings.Split(strings.TrimSpace(outputs[i].String()), "\n")
				said[lines[len(lines)-1]]++
			}
			if len(said) != 1 {
				t.Errorf("they are of different minds: %v", said)
			}
			p := newProvider(t, cfg)
			wantNothing(t, p)
			bases, err := os.ReadDir(p.store.path("bases"))
			must(t, err)
			if len(bases) > 1 {
				t.Errorf("%d bases are made", len(bases))
			}
		})
	}
}

// storeFor returns a directory for a store with the files that a configuration of bothBases needs.
func storeFor(t *testing.T, cfg map[string]any) string {
	t.Helper()
	if cfg["base"] == baseHost {
		return storeDir(t)
	}
	return storeWithImage(t)
}

// bothBases returns configurations with this machine's root and with an image. The second may skip
// the test.
func bothBases(t *testing.T) map[string]func(*testing.T) map[string]any {
	t.Helper()
	return map[string]func(*testing.T) map[string]any{
		"on this machine's root": func(*testing.T) map[string]any { return map[string]any{"base": baseHost} },
		"on an image":            func(t *testing.T) map[string]any { return realImage(t) },
	}
}

func TestIncompleteLayersAreNotUsed(t *testing.T) {
	t.Parallel()
	for name, cfg := range bothBases(t) {
		t.Run(name, func(t *testing.T) {
			cfg := cfg(t)
			cfg["dir"] = ownStoreDir(t)
			newProvider(t, cfg)
			cmd := creator(t, cfg)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			said, reader := "", bufio.NewReader(out)
			for !strings.Contains(said, "unpacking") && !strings.Contains(said, "copying this machine's configuration") { // it begins now
				line, err := reader.ReadString('\n')
				said += line
				if err != nil || strings.HasPrefix(line, "ok") {
					t.Fatalf("it said %q, error %v", said, err)
				}
			}
			must(t, cmd.Process.Kill())
			_ = cmd.Wait()
			eventually(t, "its workers live on", func() []string { return marked(t, cfg["dir"].(string)) })
			p := newProvider(t, cfg)
			wantNothing(t, p)
			again, err := creator(t, cfg).CombinedOutput()
			if err != nil || !strings.Contains(string(again), "\nok: ") {
				t.Errorf("afterwards: %v: %s", err, again)
			}
		})
	}
}

func TestUnavailableImage(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent")
	for _, key := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(key, "")
	}
	dir := storeDir(t)
	t.Run("base auto", func(t *testing.T) {
		e := create(t, newProvider(t, map[string]any{"dir": dir}), environment.CreateOptions{Image: nowhere})
		base := environment.BaseOf(e)
		if base == nil || base.Requested != nowhere || !strings.Contains(base.Actual, "this machine's root") || !strings.Contains(base.Reason, "127.0.0.1:1") {
			t.Errorf("it stands on %+v", base)
		}
	})
	t.Run("base auto, in a Dockerfile", func(t *testing.T) {
		p := newProvider(t, map[string]any{"dir": dir})
		ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "x", Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM " + nowhere + "\nRUN echo built > /built\n")}}})
		must(t, err)
		e := create(t, p, environment.CreateOptions{Image: ref})
		if base := environment.BaseOf(e); base == nil || base.Requested != nowhere || run(t, e, "cat /built") != "built\n" {
			t.Errorf("it stands on %+v", base)
		}
	})
	t.Run("base host", func(t *testing.T) {
		e := create(t, newProvider(t, map[string]any{"dir": dir, "base": baseHost}), environment.CreateOptions{Image: nowhere})
		if base := environment.BaseOf(e); base == nil || base.Requested != nowhere || !strings.Contains(base.Reason, "base: host") {
			t.Errorf("it stands on %+v", base)
		}
	})
	t.Run("base image", func(t *testing.T) {
		p := newProvider(t, map[string]any{"dir": dir, "base": baseImage})
		_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: nowhere})
		if kind := environment.KindOf(err); kind != environment.KindPull || !strings.Contains(fmt.Sprint(err), "provider_config.images") {
			t.Errorf("error %v of kind %v, want one that names provider_config.images", err, kind)
		}
		_, err = p.BuildImage(t.Context(), environment.BuildOptions{Name: "x", Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM " + nowhere + "\n")}}})
		if kind := environment.KindOf(err); kind != environment.KindPull || !strings.Contains(fmt.Sprint(err), "provider_config.images") {
			t.Errorf("error %v of kind %v, want one that names provider_config.images", err, kind)
		}
		wantNothing(t, p)
	})
	t.Run("a file that is not there", func(t *testing.T) {
		p := newProvider(t, map[string]any{"dir": dir, "base": baseImage, "images": []any{"/nonexistent/image.tar"}})
		_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: nowhere})
		if err == nil || !strings.Contains(err.Error(), "/nonexistent/image.tar") {
			t.Errorf("error %v, want one that names the file", err)
		}
	})
}

func TestImageFilesKeepOwnersAndModes(t *testing.T) {
	cfg := realImage(t)
	cfg["dir"] = storeWithImage(t)
	p := newProvider(t, cfg)
	e := create(t, p, environment.CreateOptions{Image: testImage})
	if environment.BaseOf(e) != nil {
		t.Errorf("%+v stands in", environment.BaseOf(e))
	}
	one := p.store.mode == modeOne
	group := map[bool]string{true: "root", false: "shadow"}[one]
	if got, want := run(t, e, "stat -c '%a %U %G' /usr/bin/su /usr/bin/chage /etc/shadow /tmp /var/mail"),
		"4755 root root\n2755 root "+group+"\n640 root "+group+"\n1777 root root\n2775 root "+map[bool]string{true: "root", false: "mail"}[one]+"\n"; got != want {
		t.Errorf("files have\n%swant\n%s", got, want)
	}
	if got := run(t, e, "stat -c '%h' /usr/bin/perl; [ /usr/bin/perl -ef /usr/bin/perl5.36.0 ] && echo same"); got != "2\nsame\n" && !strings.Contains(got, "stat") {
		t.Errorf("hard links: %q", got)
	}
	if !one {
		script := "cp /usr/bin/id /tmp/whoami; chmod 4755 /tmp/whoami; su nobody -s /bin/bash -c 'id -u; /tmp/whoami -u; cat /etc/shadow 2> /dev/null || echo closed'"
		if got := run(t, e, script); got != "65534\n0\nclosed\n" {
			t.Errorf("another user is, with a setuid program becomes, and may:\n%s", got)
		}
		if got := runAs(t, e, environment.ExecOptions{User: "nobody"}, "/tmp/whoami -u; su -c true < /dev/null 2>&1 | tail -n 1"); !strings.HasPrefix(got, "0\n") || !strings.Contains(got, "uthentication") {
			t.Errorf("another user gets from setuid programs:\n%s", got)
		}
	}
}

// dockerfileText uses the promised features of Dockerfiles.
const dockerfileText = `# a comment
ARG BASE=` + testImage + `
FROM ${BASE} AS tools
ARG GREETING=hello
ENV LANGUAGE=en PATH=/tools/bin:$PATH
WORKDIR /tools
WORKDIR bin
COPY --chmod=0755 greet ./
RUN ["/bin/bash", "-c", "echo $LANGUAGE $GREETING > language"]
RUN <<EOT
set -e
echo heredoc > heredoc
mkdir -p deep/er
echo x > deep/er/file
ln deep/er/file hard
ln -s deep/er soft
chmod 4711 hard
EOT

FROM ${BASE}
COPY --from=tools /tools /tools
COPY greet /bin/copied
COPY <<EOT /etc/greeting
from a heredoc
EOT
ADD archive.tar /unpacked/
COPY . /context/
SHELL ["/bin/bash", "-c"]
RUN rm -rf /usr/share/doc && rm /usr/bin/nl && [[ ! -e /usr/bin/nl ]]
RUN rm -rf /usr/share/man && echo file > /usr/share/man
RUN rm -rf /unpacked/in && mkdir /unpacked/in && echo new > /unpacked/in/new
RUN echo again >> /tools/bin/language; echo ran
ENV PATH=/tools/bin:$PATH NUMBER=7
WORKDIR /work
CMD ["ignored"]
`

func dockerfileContext(t *testing.T) fstest.MapFS {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"in/old", "in/other"} {
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o640, Size: int64(len(name))}))
		_, err := w.Write([]byte(name))
		must(t, err)
	}
	must(t, w.Close())
	return fstest.MapFS{
		"Dockerfile": {Data: []byte(dockerfileText)}, "greet": {Data: []byte("#!/bin/sh\necho greetings $NUMBER\n"), Mode: 0o644},
		"archive.tar": {Data: archive.Bytes()}, ".dockerignore": {Data: []byte("*.secret\n!kept.secret\narchive.tar\n!archive.tar\n")},
		"a.secret": {Data: []byte("x")}, "kept.secret": {Data: []byte("x")}, "sub/b.txt": {Data: []byte("b"), Mode: 0o600},
	}
}

// TestBuildOutputIsInOrder: stdout and stderr stay in the order in which they were written, so that
// the last line is the last one.
func TestBuildOutputIsInOrder(t *testing.T) {
	t.Parallel()
	for name, cfg := range bothBases(t) {
		t.Run(name, func(t *testing.T) {
			cfg := cfg(t)
			cfg["dir"] = storeFor(t, cfg)
			p := newProvider(t, cfg)
			text := "FROM " + testImage + "\nRUN for i in $(seq 500); do echo out $i; echo err $i >&2; done; exit 1\n"
			_, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "order", Context: fstest.MapFS{"Dockerfile": {Data: []byte(text)}}})
			known := new(environment.Error)
			if !errors.As(err, &known) {
				t.Fatal(err)
			}
			// The middle is left out, in the beginning or the end of a line.
			first, last, cut := strings.Cut(known.Output, "bytes are left out here]")
			if !cut || !strings.HasPrefix(first, "out 1\nerr 1\nout 2\nerr 2\n") || !strings.HasSuffix(strings.TrimSpace(last), "out 499\nerr 499\nout 500\nerr 500") {
				t.Fatalf("the output is\n%s", known.Output)
			}
			whole := ""
			for i := 1; i <= 500; i++ {
				whole += fmt.Sprintf("out %d\nerr %d\n", i, i)
			}
			first = first[:strings.LastIndexByte(first, '\n')+1] // without "[123 "
			if first = strings.TrimSuffix(first, "\n"); !strings.HasPrefix(whole, first) || !strings.HasSuffix(strings.TrimSpace(whole), strings.TrimSpace(last)) {
				t.Errorf("the output is not in order:\n%s", known.Output)
			}
		})
	}
}

func TestBuildDockerfile(t *testing.T) {
	t.Parallel()
	for name, cfg := range bothBases(t) {
		t.Run(name, func(t *testing.T) {
			cfg := cfg(t)
			cfg["dir"] = storeFor(t, cfg)
			p := newProvider(t, cfg)
			var lines []string
			build := func(opts environment.BuildOptions) string {
				t.Helper()
				lines = nil
				opts.Name, opts.Progress = "Some Task", func(line string) { lines = append(lines, line) }
				ref, err := p.BuildImage(t.Context(), opts)
				must(t, err)
				return ref
			}
			files := dockerfileContext(t)
			ref := build(environment.BuildOptions{Context: files, Args: map[string]string{"GREETING": "hi"}})
			if !slices.Contains(lines, "ran") {
				t.Errorf("the first build said\n%s", strings.Join(lines, "\n"))
			}
			e := create(t, p, environment.CreateOptions{Image: ref})
			got := run(t, e, `pwd; greet; cat /tools/bin/language /tools/bin/heredoc /tools/bin/soft/file /etc/greeting; stat -c '%h %a' /tools/bin/hard
				readlink /tools/bin/soft; [ /tools/bin/hard -ef /tools/bin/deep/er/file ] && echo same; [ -L /bin ] && echo merged; stat -c %a /bin/copied /usr/bin/copied
				ls /unpacked/in /context; cat /usr/share/man; ls -d /usr/bin/nl /usr/share/doc 2> /dev/null; ls -A /context/sub; stat -c %a /context/sub/b.txt`)
			want := "/work\ngreetings 7\nen hi\nagain\nheredoc\nx\nfrom a heredoc\n2 4711\ndeep/er\nsame\nmerged\n644\n644\n" +
				"/context:\nDockerfile\narchive.tar\ngreet\nkept.secret\nsub\n\n/unpacked/in:\nnew\nfile\nb.txt\n600\n"
			if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}

			if again := build(environment.BuildOptions{Context: files, Args: map[string]string{"GREETING": "hi"}}); again != ref || slices.Contains(lines, "ran") {
				t.Errorf("the second build made %s, the first %s, and said\n%s", again, ref, strings.Join(lines, "\n"))
			}
			other := newProvider(t, cfg)
			if again, err := other.BuildImage(t.Context(), environment.BuildOptions{Name: "Some Task", Context: files, Args: map[string]string{"GREETING": "hi"}}); err != nil || again != ref {
				t.Errorf("another process's build makes %s, error %v", again, err)
			}
			if build(environment.BuildOptions{Context: files, Args: map[string]string{"GREETING": "hi"}, NoCache: true}); !slices.Contains(lines, "ran") {
				t.Errorf("a fresh build said\n%s", strings.Join(lines, "\n"))
			}
			if got := run(t, e, "cat /tools/bin/language"); got != "en hi\nagain\n" {
				t.Errorf("after a fresh build, the environment of the old one has %q", got)
			}
			if changed := build(environment.BuildOptions{Context: files}); changed == ref {
				t.Error("with another argument it is the same image")
			}
			files["sub/b.txt"].Data = []byte("changed")
			if changed := build(environment.BuildOptions{Context: files, Args: map[string]string{"GREETING": "hi"}}); changed == ref {
				t.Error("with another file it is the same image")
			}
			wantNoDrafts(t, p)
		})
	}
}

func wantNoDrafts(t *testing.T, p *Provider) {
	t.Helper()
	if entries, err := os.ReadDir(p.store.path("tmp")); err != nil || len(entries) > 0 {
		t.Errorf("tmp holds %v, error %v", entries, err)
	}
}

func TestBuildDockerfileWithUsers(t *testing.T) {
	cfg := realImage(t)
	cfg["dir"] = storeWithImage(t)
	p := newProvider(t, cfg)
	text := `FROM ` + testImage + `
RUN useradd --create-home --uid 1234 agent && groupadd --gid 4321 crew
COPY --chown=agent:crew x /home/agent/x
COPY --chown=55:66 --chmod=640 x /home/agent/y
USER agent:crew
WORKDIR /home/agent/made
RUN id -u > /home/agent/id && id -g >> /home/agent/id
`
	opts := environment.BuildOptions{Name: "users", Context: fstest.MapFS{"Dockerfile": {Data: []byte(text)}, "x": {Data: []byte("x"), Mode: 0o644}}}
	ref, err := p.BuildImage(t.Context(), opts)
	if p.store.mode == modeOne {
		if environment.KindOf(err) != environment.KindBuild || !strings.Contains(fmt.Sprint(err), "subuid") {
			t.Errorf("error %v, want one that names the way to more users", err)
		}
		return
	}
	must(t, err)
	e := create(t, p, environment.CreateOptions{Image: ref})
	got := run(t, e, "id -u; id -g; pwd; echo $HOME; cat ~/id; stat -c '%u %g %a' ~/x ~/y ~/id; touch ~/mine && echo wrote; touch /etc/theirs 2> /dev/null || echo refused")
	want := "1234\n4321\n/home/agent/made\n/home/agent\n1234\n4321\n1234 4321 644\n55 66 640\n1234 4321 644\nwrote\nrefused\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestFromScratch(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	build := func(text string) string {
		t.Helper()
		ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "nothing", Context: fstest.MapFS{
			"Dockerfile": {Data: []byte(text)}, "x": {Data: []byte("x"), Mode: 0o644},
		}})
		must(t, err)
		return ref
	}
	const nothing = "FROM scratch AS nothing\nCOPY x /deep/er/x\n"
	e := create(t, p, environment.CreateOptions{Image: build(nothing + "FROM any\nCOPY --from=nothing /deep /all/deep\n")})
	if got := run(t, e, "cd /all; find . -type f; ls"); got != "./deep/er/x\ndeep\n" {
		t.Errorf("an image from scratch holds\n%s", got)
	}
	_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: build(nothing)})
	if environment.KindOf(err) != environment.KindStart || !strings.Contains(fmt.Sprint(err), "bash") {
		t.Errorf("error %v, want one that says that bash is needed", err)
	}
}

func TestWorkDirThatCannotBeCreated(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	for name, steps := range map[string]string{
		"below a file":    "WORKDIR /dir/work\nRUN rm -r /dir && touch /dir\n",
		"a ring of links": "WORKDIR /dir/work\nRUN rm -r /dir && ln -s dir /dir\n",
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "x", Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM " + testImage + "\n" + steps)}}})
			must(t, err)
			_, err = p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: ref})
			known := new(environment.Error)
			if !errors.As(err, &known) || known.Kind != environment.KindStart || !strings.Contains(err.Error(), "/dir/work") || !strings.Contains(known.Hint, "WORKDIR") {
				t.Errorf("got %v, want an error that names the directory", err)
			}
			wantNothing(t, p)
		})
	}
}

// The conformance suite's check needs a user other than root, which sandboxes with one id do not
// have.
func TestMissingWorkDirIsCreated(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "x", Context: fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM " + testImage + "\nWORKDIR /dir/work\nRUN rm -r /dir\n")},
	}})
	must(t, err)
	got := run(t, create(t, p, environment.CreateOptions{Image: ref}), "pwd; stat -c '%a %u %g' . ..")
	if want := "/dir/work\n755 0 0\n755 0 0\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
