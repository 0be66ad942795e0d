package inspect

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/registry"
)

// Datasets holds the datasets of a registry.
type Datasets struct {
	Registry string // its location, without credentials
	List     []registry.Listed
}

// ListDatasets returns the datasets of a registry, which is a path or a URL: those that labels
// name, or all if there are no labels.
func ListDatasets(ctx context.Context, h *host.Host, where string, labels []string) (Datasets, error) {
	source, reg, err := OpenRegistry(ctx, h, where)
	if err != nil {
		return Datasets{}, err
	}
	defer source.Close()
	list, err := SelectDatasets(reg, labels)
	return Datasets{Registry: reg.Source, List: list}, err
}

// DatasetRequest names a dataset of a registry.
type DatasetRequest struct {
	Registry string // a path or a URL
	Label    string // the dataset: NAME or NAME@VERSION
}

// ShownDataset is a dataset as its registry describes it, without credentials.
type ShownDataset struct {
	registry.Dataset
	Versions []string `json:"versions"` // all that the registry has
}

// ShowDataset returns a dataset of a registry.
func ShowDataset(ctx context.Context, h *host.Host, req DatasetRequest) (ShownDataset, error) {
	source, reg, err := OpenRegistry(ctx, h, req.Registry)
	if err != nil {
		return ShownDataset{}, err
	}
	defer source.Close()
	d, err := FindDataset(reg, req.Label)
	if err != nil {
		return ShownDataset{}, err
	}
	return ShownDataset{dataset.Public(reg, d), reg.Versions(d.Name)}, nil
}

// DownloadRequest is the request of Download.
type DownloadRequest struct {
	DatasetRequest
	Output string // the directory to write to, which is empty or missing; "": by the dataset's name
}

// Downloaded is a dataset that was written to disk.
type Downloaded struct {
	dataset.Written
	Label  string
	Output string // the directory, as the request names it
	Format string // of its tasks
}

// Download writes the tasks of a registry's dataset into a directory.
func Download(ctx context.Context, h *host.Host, req DownloadRequest) (Downloaded, error) {
	source, reg, err := OpenRegistry(ctx, h, req.Registry)
	if err != nil {
		return Downloaded{}, err
	}
	defer source.Close()
	d, err := FindDataset(reg, req.Label)
	if err != nil {
		return Downloaded{}, err
	}
	out := Downloaded{Label: d.Label(), Output: req.Output}
	if out.Output == "" {
		out.Output = result.Slug(d.Name)
	}
	dir := h.Path(out.Output)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return out, host.Usagef("%s is not empty: choose another --output", out.Output)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, host.Usagef("--output: %w", err)
	}
	sets, _, err := source.Load(ctx, []dataset.Ref{{Name: d.Name, Version: d.Version, Registry: registryPath(h.Paths, req.Registry)}})
	if err != nil {
		return out, err
	}
	out.Format = string(sets[0].Format)
	out.Written, err = sets[0].Write(ctx, dir)
	return out, err
}

// OpenRegistry loads a registry. The caller closes the source.
func OpenRegistry(ctx context.Context, h *host.Host, where string) (*dataset.Source, *registry.Registry, error) {
	source := host.NewSource(h.Variables, h.Guard, h.Output)
	reg, err := source.LoadRegistry(ctx, registryPath(h.Paths, where))
	if err != nil {
		_ = source.Close() // locks, which end with the process at the latest
		return nil, nil, err
	}
	return source, reg, nil
}

// registryPath resolves the registry of a request relative to the current directory, if it is a
// path.
func registryPath(paths host.Paths, where string) string {
	if IsAddress(paths, where) {
		return where
	}
	return paths.Path(where)
}

// IsAddress reports whether a registry is elsewhere: behind a URL, or a repository. A file that
// exists is a path, even if a repository could have its name.
func IsAddress(paths host.Paths, where string) bool {
	if registry.IsURL(where) {
		return true
	}
	if _, _, ok := git.Repository(where); !ok {
		return false
	}
	_, err := os.Lstat(paths.Path(where))
	return err != nil
}

// FindDataset returns the dataset with a label, or a UsageError with the labels that there are.
func FindDataset(reg *registry.Registry, label string) (*registry.Dataset, error) {
	d, err := reg.Find(registry.SplitLabel(label))
	return d, asUsage(err)
}

// SelectDatasets returns the datasets with these labels, all without any, or an error as
// FindDataset does.
func SelectDatasets(reg *registry.Registry, labels []string) ([]registry.Listed, error) {
	list, err := reg.Select(labels)
	return list, asUsage(err)
}

// asUsage returns the error of a label that there is not as a UsageError, and others as they are.
func asUsage(err error) error {
	if missing := (*registry.NotFoundError)(nil); errors.As(err, &missing) {
		return host.Usagef("%w", err)
	}
	return err
}
