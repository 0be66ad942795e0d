package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/memfs"
)

// programDir is where this program is put in containers, to be a relay or a killer.
const programDir = "/.rollout"

// architectures are the engine's names for them, and Go's.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "amd64": "amd64", "arm64": "arm64"} // Podman has Go's

// program returns a copy of this program that the engine can run. Its file name is the role, which
// selects its behavior.
func (p *Provider) program(role string) (environment.Copy, error) {
	file, err := programFile(p.info.OSType, architectures[p.info.Architecture])
	var content []byte
	if err == nil {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return environment.Copy{}, &environment.Error{
			Kind: environment.KindUnavailable,
			Err: fmt.Errorf("no part of rollout can be run on the engine, which is %s/%s, while this rollout is for %s/%s: %w",
				p.info.OSType, p.info.Architecture, runtime.GOOS, runtime.GOARCH, err),
			Hint: fmt.Sprintf("put the program of that system's release into the directory of this one, as %s-linux-%s, or run rollout on Linux with the engine's architecture",
				programName, architectures[p.info.Architecture]),
		}
	}
	return environment.Copy{Src: memfs.Dir{role: {Data: content, Mode: 0o755}}, Dst: programDir, Clean: true}, nil
}

// programName is the program's file name in releases; those for other systems have "-linux-ARCH"
// behind it.
const programName = "rollout"

// programFile returns a file with this program for an engine: its own, or the one for another
// system next to it.
func programFile(system, goarch string) (string, error) {
	if system != "linux" || goarch == "" {
		return "", fmt.Errorf("there is no release of rollout for it")
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == goarch {
		return "/proc/self/exe", nil // also when the file was replaced or removed meanwhile
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(own), programName+"-linux-"+goarch), nil
}
