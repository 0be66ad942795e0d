package podinit

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// embedded returns the small program that released binaries have for containers of an architecture.
// It has the guest and all else that runs in them. fs.ErrNotExist: this binary has none.
func embedded(of fs.FS, goarch string) ([]byte, error) {
	file, err := of.Open("programs/linux-" + goarch + ".gz")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("the program of pods for linux/%s: %w", goarch, err)
	}
	program, err := io.ReadAll(content)
	if err = errors.Join(err, content.Close()); err != nil {
		return nil, fmt.Errorf("the program of pods for linux/%s: %w", goarch, err)
	}
	return program, nil
}
