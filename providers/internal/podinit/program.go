package podinit

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/memfs"
)

// programName is the program's file name in releases; those for other systems have "-linux-ARCH"
// behind it.
const programName = "rollout"

// ProgramFS returns a file system with the one file Installer, for an image of Linux containers of
// an architecture, as Go names them: the program of pods that releases embed, this program's own
// file, or rollout-linux-ARCH next to it. Fails with KindUnavailable.
func ProgramFS(goarch string) (fs.FS, error) { return programFS(programs, goarch) }

func programFS(programs fs.FS, goarch string) (fs.FS, error) {
	content, err := embedded(programs, goarch)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = readProgram(goarch)
	}
	if err != nil {
		return nil, &environment.Error{
			Kind: environment.KindUnavailable,
			Err:  fmt.Errorf("no part of rollout can be run in containers of linux/%s, while this rollout is for %s/%s: %w", goarch, runtime.GOOS, runtime.GOARCH, err),
			Hint: fmt.Sprintf("put the program of that system's release into the directory of this one, as %s-linux-%s", programName, goarch),
		}
	}
	return memfs.Dir{Installer: {Data: content, Mode: 0o755}}, nil
}

func readProgram(goarch string) ([]byte, error) {
	file := "/proc/self/exe" // also when the file was replaced or removed meanwhile
	if runtime.GOOS != "linux" || runtime.GOARCH != goarch {
		own, err := os.Executable()
		if err != nil {
			return nil, err
		}
		file = filepath.Join(filepath.Dir(own), programName+"-linux-"+goarch)
	}
	f, err := os.Open(file) // #nosec G304 -- next to this program
	if err != nil {
		return nil, err
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return nil, errors.New("it needs libraries of this machine: build it with CGO_ENABLED=0")
		}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}
