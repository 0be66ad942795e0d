package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// DefaultURL is the public registry. Source: specification, "job.yaml".
const DefaultURL = "https://raw.githubusercontent.com/laude-institute/harbor/refs/heads/main/registry.json"

// Options configure how registries are loaded. The zero value works without a cache.
type Options struct {
	Cache     *cache.Cache      // caches registries from URLs; nil: no caching
	Transport http.RoundTripper // nil: one with timeouts
	Delay     time.Duration     // before the first retry, then doubling; 0: a second
	Timeout   time.Duration     // of one request including its response; 0: ten minutes
	// Stall limits the time in which a response may stay below 1 KiB a second on average; 0: half a
	// minute.
	Stall time.Duration
}

// IsURL reports whether source is a URL, not a path.
func IsURL(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}

// Load reads the registry at a URL (see IsURL) or a path. The error is a diag.List if the registry
// is invalid or missing.
func Load(ctx context.Context, source string, opts Options) (*Registry, error) {
	if IsURL(source) {
		return opts.get(ctx, source)
	}
	text, err := readFile(source)
	if err != nil {
		return nil, err
	}
	r, err := Parse(source, text)
	if err != nil {
		return nil, err
	}
	if r.Dir, err = filepath.Abs(filepath.Dir(source)); err != nil {
		return nil, fmt.Errorf("find the directory of %s: %w", source, err)
	}
	return r, nil
}

func readFile(path string) ([]byte, error) {
	problem := func(message, hint string) ([]byte, error) {
		return nil, diag.List{{File: untrusted.Line(path), Message: message, Hint: hint}}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return problem("there is no such registry", "a registry is a file such as registry.json, or a URL that begins with https://")
	case err != nil:
		return nil, fmt.Errorf("read the registry: %w", err)
	case info.IsDir():
		return problem("is a directory, not a registry", "name the file, such as "+filepath.Join(path, "registry.json"))
	case !info.Mode().IsRegular():
		return problem("is not a file", "")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	if len(text) > maxSize {
		return problem(fmt.Sprintf("the registry is larger than %d MiB", maxSize>>20), "")
	}
	return text, nil
}
