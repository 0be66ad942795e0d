package kubernetes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/docker"
	"github.com/org/rollout-action/providers/internal/registryimage"
	"github.com/org/rollout-action/providers/sandbox"
)

// What each builder makes of a Dockerfile reaches the registry, and runs as a pod.
func TestBuildersOnACluster(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	for _, builder := range registryimage.BuilderNames {
		t.Run(builder, func(t *testing.T) {
			t.Parallel()
			more := map[string]any{"builder": builder}
			if builder == registryimage.BuildKitDaemon {
				more["buildkit"] = startBuildkitd(t)
			}
			p, err := New(t.Context(), c.with(more), Options{Builders: []registryimage.Builder{
				docker.ImageBuilder(), sandbox.ImageBuilder(map[string]any{"dir": t.TempDir()}, sandbox.Options{}),
			}})
			testenv.Check(t, Name, err)
			t.Cleanup(func() {
				if err := p.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			var said []string
			ref, err := p.BuildImage(t.Context(), environment.BuildOptions{
				Name: "builders", Args: map[string]string{"FROM": c.image, "ONLY": t.Name() + p.run}, // nothing of an earlier test
				Context: fstest.MapFS{
					"Dockerfile": {Mode: 0o644, Data: []byte(`ARG FROM
FROM $FROM AS made
ARG ONLY
RUN echo "$ONLY" >/only && rm /etc/issue && mkdir /files /opt/owned && chown 7:8 /opt/owned && chmod 2750 /opt/owned
FROM made
ENV GREETING="hello there"
COPY --chown=daemon:daemon --chmod=0640 a.txt in/ /files/
COPY entry.sh /
ENTRYPOINT ["/entry.sh"]
WORKDIR /work/here
USER daemon
`)},
					"a.txt": {Mode: 0o600, Data: []byte("text\n")}, "in/b.sh": {Mode: 0o755, Data: []byte("#!/bin/sh\n")},
					"entry.sh": {Mode: 0o755, Data: []byte("#!/bin/sh\nid -un >/tmp/entry\nexec \"$@\"\n")},
				},
				Progress: func(line string) { said = append(said, line) },
			})
			testenv.Check(t, builder, err)
			if all := strings.Join(said, "\n"); !strings.Contains(all, " with "+builder) {
				t.Errorf("progress says %q", all)
			}
			env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: ref, Labels: environment.Labels{Job: "builders", Trial: builder, Owner: environment.Self()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := env.Destroy(context.Background()); err != nil {
					t.Error(err)
				}
			})
			got := runIn(t, env, `pwd; id -un; echo "$GREETING"; cat /only /tmp/entry /files/a.txt; stat -c '%n %a %U:%G' /files/* /entry.sh; stat -c '%n %a %u:%g' /opt/owned; ls /etc/issue 2>&1 || true`)
			want := "/work/here\ndaemon\nhello there\n" + t.Name() + p.run + "\ndaemon\ntext\n/files/a.txt 640 daemon:daemon\n/files/b.sh 640 daemon:daemon\n/entry.sh 755 root:root\n" +
				"/opt/owned 2750 7:8\nls: cannot access '/etc/issue': No such file or directory\n"
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// startBuildkitd starts the buildkitd that ROLLOUT_TEST_BUILDKITD names, and returns its address.
func startBuildkitd(t *testing.T) string {
	t.Helper()
	program := os.Getenv("ROLLOUT_TEST_BUILDKITD")
	if program == "" {
		testenv.Lacks(t, "buildkitd", "a buildkitd: ROLLOUT_TEST_BUILDKITD names none")
	}
	testenv.NeedRoot(t, "which buildkitd needs")
	root, err := os.MkdirTemp("/var/tmp", "rollout-buildkitd-")
	if err != nil {
		t.Fatal(err)
	}
	address := "unix://" + filepath.Join(root, "socket")
	cmd := exec.Command(program, "--root", root, "--containerd-worker=false", "--oci-worker-gc=false", "--oci-worker-binary=runc", "--addr", address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log tail
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("buildkitd said:\n%s", log.String())
		}
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	soon(t, "buildkitd's socket", func() bool {
		_, err := os.Stat(filepath.Join(root, "socket"))
		return err == nil
	})
	return address
}
