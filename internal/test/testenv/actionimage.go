package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ActionImage builds the Action's image from the Dockerfile of the checkout at top, with the binary
// of this checkout, as releases do, on an image that exists locally: Image replaces those of
// registries. It needs the docker command. dir is an empty directory. All created images have the
// label, including those without names: name and name-stage.
func ActionImage(top, dir, name, label string) error {
	binary, err := Binary(dir, Released...)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := map[string][]byte{filepath.Join("dist", "linux-"+runtime.GOARCH, "rollout"): program}
	for _, file := range []string{"Dockerfile", ".dockerignore"} {
		if files[file], err = os.ReadFile(filepath.Join(top, file)); err != nil {
			return err
		}
	}
	of := filepath.Join(dir, "context")
	for file, content := range files {
		path := filepath.Join(of, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	stage := exec.CommandContext(context.Background(), "docker", "build", "--tag", name+"-stage", "-")
	stage.Stdin = strings.NewReader("FROM " + Image + "\nLABEL " + label + "\n")
	if out, err := stage.CombinedOutput(); err != nil {
		return fmt.Errorf("build the first stage's image: %w\n%s", err, out)
	}
	out, err := exec.CommandContext(context.Background(), "docker", "build", "--build-arg", "GO_IMAGE="+name+"-stage",
		"--build-arg", "BASE_IMAGE="+Image, "--tag", name, of).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the image (its base %s needs git and CA certificates): %w\n%s", Image, err, out)
	}
	return nil
}
