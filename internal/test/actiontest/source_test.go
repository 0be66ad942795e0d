package actiontest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// On branches, jobs that use the Action build the Dockerfile from this repository's source. Here
// the machine's Go replaces Go's image, with the modules already in place: nothing is downloaded.
func TestTheImageIsBuiltFromSource(t *testing.T) {
	if !slices.Contains(strings.Split(os.Getenv("ROLLOUT_TEST_REQUIRE"), ","), "source-image") {
		t.Skip("takes minutes: everything is compiled from nothing; ROLLOUT_TEST_REQUIRE=source-image has it run, as CI does")
	}
	testenv.NeedDocker(t)
	testenv.NeedRoot(t, "as all tests of the image")
	goImage, image := fmt.Sprintf("rollout-action-test-go:%d", os.Getpid()), fmt.Sprintf("rollout-action-test-source:%d", os.Getpid())
	context := t.TempDir()
	command(t, top, "cp", "--archive", strings.TrimSpace(command(t, top, "go", "env", "GOROOT")), filepath.Join(context, "go"))
	must(t, os.RemoveAll(filepath.Join(context, "go/pkg/mod"))) // where GOPATH is below it
	command(t, top, "go", "mod", "vendor", "-o", filepath.Join(context, "vendor"))
	write(t, context, map[string]string{"Dockerfile": "FROM " + testenv.Image + "\nLABEL " + ownLabel() + `
COPY go /usr/local/go
COPY vendor /src/vendor
# Neither optimised nor for debuggers, which takes half of the time away.
ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOFLAGS="-mod=vendor '-gcflags=all=-N -l -dwarf=false'" GOGC=400 GOPROXY=off GOTOOLCHAIN=local
`})
	docker(t, "build", "--tag", goImage, context)
	t.Cleanup(func() { docker(t, "image", "rm", goImage) })
	docker(t, "build", "--build-arg", "GO_IMAGE="+goImage, "--build-arg", "BASE_IMAGE="+testenv.Image, "--build-arg", "VERSION=v1.2.3-test", "--tag", image, top)
	t.Cleanup(func() { docker(t, "image", "rm", image) })
	if said := docker(t, "run", "--rm", "--entrypoint", "rollout", image, "version"); !strings.HasPrefix(said, "rollout v1.2.3-test ") {
		t.Errorf("rollout version says %q", said)
	}
}

// command runs a program and returns its output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
