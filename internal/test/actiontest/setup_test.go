package actiontest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
)

// release is a server with releases of a program that prints its version.
type release struct {
	*httptest.Server
	files map[string][]byte // path -> content
}

func newRelease(t *testing.T) *release {
	t.Helper()
	r := &release{files: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		content, ok := r.files[req.URL.Path]
		switch {
		case ok:
			_, _ = w.Write(content)
		case strings.HasPrefix(req.URL.Path, "/releases/latest/download/"): // GitHub redirects
			http.Redirect(w, req, strings.Replace(req.URL.Path, "latest/download", "download/v2.0.0", 1), http.StatusFound)
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(r.Close)
	for _, version := range []string{"v1.2.3", "v2.0.0"} {
		var sums strings.Builder
		for _, system := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"} {
			archive := packed(t, "#!/bin/sh\necho rollout "+version+" for "+system+"\n")
			name := "rollout-" + system + ".tar.gz"
			r.files["/releases/download/"+version+"/"+name] = archive
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name)
		}
		r.files["/releases/download/"+version+"/checksums.txt"] = []byte(sums.String())
	}
	return r
}

func packed(t *testing.T, program string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	archive := tar.NewWriter(z)
	for name, content := range map[string]string{"rollout": program, "LICENSE": "free"} {
		must(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
		_, err := archive.Write([]byte(content))
		must(t, err)
	}
	must(t, archive.Close())
	must(t, z.Close())
	return out.Bytes()
}

// machine puts a fake uname first in the PATH.
func machine(t *testing.T, system, arch string) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s ;; -m) echo %s ;; esac\n", system, arch)
	testprogram.Write(t, filepath.Join(dir, "uname"), script)
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

func TestSetup(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		testenv.Lacks(t, "act", "curl, which GitHub's machines have")
	}
	changed := func(r *release) {
		path := "/releases/download/v1.2.3/rollout-linux-amd64.tar.gz"
		r.files[path] = packed(t, "#!/bin/sh\necho evil > evil; echo evil\n")
	}
	unlisted := func(r *release) {
		r.files["/releases/download/v1.2.3/checksums.txt"] = []byte("0000  rollout-linux-amd64.tar.gz.sig\n")
	}
	for _, c := range []struct {
		name, version, system, arch string
		change                      func(*release)
		releases                    string
		want, refused               string
	}{
		{name: "a version", version: "v1.2.3", system: "Linux", arch: "x86_64", want: "rollout v1.2.3 for linux-amd64"},
		{name: "the latest, by a redirect", version: "latest", system: "Linux", arch: "aarch64", want: "rollout v2.0.0 for linux-arm64"},
		{name: "macOS", version: "v1.2.3", system: "Darwin", arch: "arm64", want: "rollout v1.2.3 for darwin-arm64"},
		{name: "an exchanged archive is not run", version: "v1.2.3", system: "Linux", arch: "x86_64", change: changed, refused: "it was damaged or exchanged"},
		{name: "an archive without a digest is not run", version: "v1.2.3", system: "Linux", arch: "x86_64", change: unlisted, refused: "has no line for rollout-linux-amd64.tar.gz"},
		{name: "no such release", version: "v9.9.9", system: "Linux", arch: "x86_64", refused: "is there such a release?"},
		{name: "no such system", version: "v1.2.3", system: "MINGW64", arch: "x86_64", refused: "use Linux or macOS"},
		{name: "a version is no path", version: "v1.2.3/../../x", system: "Linux", arch: "x86_64", refused: "the input version must be"},
		{name: "what can be changed on its way is refused", version: "v1.2.3", system: "Linux", arch: "x86_64", releases: "http://releases.example.com", refused: "must be an https address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newRelease(t)
			if c.change != nil {
				c.change(server)
			}
			if c.releases == "" {
				c.releases = server.URL + "/releases"
			}
			dir := t.TempDir()
			script, err := filepath.Abs(filepath.Join(top, "setup/install"))
			must(t, err)
			cmd := exec.Command("bash", script)
			cmd.Dir = dir
			cmd.Env = []string{
				"PATH=" + machine(t, c.system, c.arch), "RUNNER_TEMP=" + dir, "GITHUB_PATH=" + filepath.Join(dir, "path"),
				"GITHUB_OUTPUT=" + filepath.Join(dir, "output"), "ROLLOUT_VERSION=" + c.version, "ROLLOUT_RELEASES=" + c.releases,
			}
			out, err := cmd.CombinedOutput()
			if c.refused != "" {
				if err == nil || !strings.Contains(string(out), "::error") || !strings.Contains(string(out), c.refused) {
					t.Errorf("got %v, want an error with %q:\n%s", err, c.refused, out)
				}
				for _, file := range []string{"path", "evil"} {
					if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
						t.Errorf("there is %s", file)
					}
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			bin := strings.TrimSpace(read(t, dir, "path"))
			said, err := exec.Command(filepath.Join(bin, "rollout")).Output()
			must(t, err)
			if got := strings.TrimSpace(string(said)); got != c.want {
				t.Errorf("what is on the PATH says %q, want %q", got, c.want)
			}
			if outputs, err := fileCommands(read(t, dir, "output")); err != nil || outputs["version"] != c.want || outputs["path"] != bin {
				t.Errorf("outputs: %v, %v", outputs, err)
			}
		})
	}
}

// A release's tag differs from this checkout in two lines.
func TestFilesOfARelease(t *testing.T) {
	const image = "ghcr.io/org/rollout-action@sha256:0000"
	dir := released(t, "v1.2.3", image)
	for file, want := range map[string]string{"action.yml": "  image: 'docker://" + image + "'", "setup/action.yml": "    default: v1.2.3"} {
		before, after := strings.Split(read(t, top, file), "\n"), strings.Split(read(t, dir, file), "\n")
		if len(before) != len(after) {
			t.Fatalf("%s has %d lines, and had %d", file, len(after), len(before))
		}
		var changed []string
		for i := range before {
			if before[i] != after[i] {
				changed = append(changed, after[i])
			}
		}
		if strings.Join(changed, "\n") != want {
			t.Errorf("%s: changed are %q, want %q", file, changed, want)
		}
	}
	again := exec.Command(filepath.Join(top, ".ci/pin-release"), "v1.2.4", image, dir)
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "does not have the one line") {
		t.Errorf("a second time: %v, %s", err, out)
	}
}

// releasedCommit is the commit of the Action that the reusable workflow of a release uses.
const releasedCommit = "4444444444444444444444444444444444444444"

func pinWorkflow(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command(filepath.Join(top, ".ci/pin-workflow"), "v1.2.3", releasedCommit, dir).CombinedOutput(); err != nil {
		t.Fatalf("pin the workflow: %v\n%s", err, out)
	}
}

// Pinning the reusable workflow by its commit pins all code that it runs.
func TestAReleasesWorkflowIsPinned(t *testing.T) {
	dir := released(t, "v1.2.3", "ghcr.io/org/rollout-action@sha256:0000")
	const file = ".github/workflows/rollout.yml"
	before := read(t, dir, file)
	pinWorkflow(t, dir)
	after := read(t, dir, file)
	if want := strings.ReplaceAll(before, "uses: org/rollout-action@v1\n", "uses: org/rollout-action@"+releasedCommit+" # v1.2.3\n"); after != want || after == before {
		t.Errorf("the workflow is now:\n%s", after)
	}
	for line := range strings.Lines(after) {
		if uses, ok := strings.CutPrefix(strings.TrimLeft(line, " -"), "uses: "); ok && !strings.HasPrefix(uses, "./") && !byCommit.MatchString(uses) {
			t.Errorf("it uses %s", uses)
		}
	}
	for _, args := range [][]string{{"v1.2.3", releasedCommit, dir}, {"v1.2.3", "v1", t.TempDir()}} {
		if out, err := exec.Command(filepath.Join(top, ".ci/pin-workflow"), args...).CombinedOutput(); err == nil {
			t.Errorf("%q: no error, %s", args, out)
		}
	}
	write(t, dir, map[string]string{file: before + "      - uses: actions/cache@v4\n"})
	if out, err := exec.Command(filepath.Join(top, ".ci/pin-workflow"), "v1.2.3", releasedCommit, dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "may move") {
		t.Errorf("with an action that may move: %v, %s", err, out)
	}
}

// released returns the repository at a release's tag, as far as workflows that use it see it.
func released(t *testing.T, version, image string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"action.yml", "setup/action.yml", "setup/install", ".github/workflows/rollout.yml"} {
		write(t, dir, map[string]string{file: read(t, top, file)})
	}
	if out, err := exec.Command(filepath.Join(top, ".ci/pin-release"), version, image, dir).CombinedOutput(); err != nil {
		t.Fatalf("pin the release: %v\n%s", err, out)
	}
	return dir
}
