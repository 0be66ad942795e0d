package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/registry"
)

// Ref names a dataset in a job: a directory, or a dataset of a registry.
type Ref struct {
	Name     string // "": the directory's
	Dir      string // the directory, absolute; "" for a dataset of a registry
	Registry string // path or URL
	Version  string // "": see registry.Preferred
	// Options are for loading the tasks. If Options.Format is empty, it is Rollout's for a
	// directory. For a dataset of a registry it is the registry's, or Harbor's if the registry has
	// none.
	Options task.Options
	Select  Selection
	Place   diag.Diagnostic // its position in the job: file, line and column
}

// Source loads a job's datasets. It fetches tasks of registries into a cache, where they stay until
// Close. It is safe for concurrent use.
type Source struct {
	Cache    *cache.Cache // nil if there is none; CacheErr is the reason
	CacheErr error
	Git      *git.Client
	Registry registry.Options
	Notify   func(text string) // receives messages for users, such as that a fetch takes long; may be nil
	// Include and Exclude are globs for the names of all tasks.
	Include, Exclude []string
	// Admit is called with each directory of this machine that a registry names. It returns the
	// directory to read instead. If it is set, registries cannot name repositories on this machine.
	// nil: directories are read where they are.
	Admit func(path string) (string, error)

	mu          sync.Mutex
	directories []*cache.Dir
}

// Close allows the cache to remove the fetched files. The sets must not be used afterwards.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.directories {
		errs = append(errs, f.Close())
	}
	s.directories = nil
	return errors.Join(errs...)
}

func (s *Source) notify(format string, args ...any) {
	if s.Notify != nil {
		s.Notify(fmt.Sprintf(format, args...))
	}
}

// Load loads datasets, in this order. It fetches only tasks that may be selected, and each
// repository and commit once. The diagnostics are warnings. The error is a diag.List with all
// problems in the job, the directories and the registries; it is another error if something could
// not be fetched, as a job without a repository's tasks should not start. A task that is missing
// from its commit, or cannot be exported, is no error: its trials fail.
func (s *Source) Load(ctx context.Context, refs []Ref) ([]*Set, diag.List, error) {
	var problems diag.List
	var broken error
	sets := make([]*Set, len(refs))
	picks := make([]*pick, len(refs))
	registries := map[string]*registry.Registry{}
	for i, ref := range refs {
		var warnings diag.List
		var err error
		if ref.Dir != "" {
			sets[i], warnings, err = Load(ctx, ref.Name, ref.Dir, ref.Options)
		} else {
			picks[i], err = s.pick(ctx, ref, registries)
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		problems = append(problems, warnings...)
		var list diag.List
		switch {
		case errors.As(err, &list):
			problems = append(problems, list...)
		case err != nil && broken == nil:
			broken = err
		}
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	if broken != nil {
		return nil, nil, broken
	}
	if err := s.loadPicks(ctx, picks, sets); err != nil {
		return nil, nil, err
	}
	out := make([]*Set, 0, len(sets))
	for i, ref := range refs {
		chosen, err := s.choose(sets[i], ref)
		if err != nil {
			problems = append(problems, *err)
			continue
		}
		out = append(out, chosen)
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	return out, problems, nil
}

// pick is a dataset of a registry, with the tasks that may be selected by name.
type pick struct {
	ref      Ref
	registry *registry.Registry
	dataset  *registry.Dataset
	tasks    []*registry.Task // sorted by name
}

func (s *Source) pick(ctx context.Context, ref Ref, known map[string]*registry.Registry) (*pick, error) {
	reg := known[ref.Registry]
	if reg == nil {
		var err error
		if reg, err = s.LoadRegistry(ctx, ref.Registry); err != nil {
			return nil, err
		}
		known[ref.Registry] = reg
	}
	d, err := reg.Find(ref.Name, ref.Version)
	var missing *registry.NotFoundError
	if errors.As(err, &missing) {
		place := ref.Place
		place.Message, place.Hint = missing.Message, missing.Hint
		return nil, diag.List{place}
	}
	if err != nil {
		return nil, err
	}
	ref.Options.Format = cmp.Or(ref.Options.Format, task.Format(d.Format), task.FormatHarbor)
	p := &pick{ref: ref, registry: reg, dataset: d}
	for i := range d.Tasks {
		p.tasks = append(p.tasks, &d.Tasks[i])
	}
	sortTasks(p.tasks)
	p.tasks = s.byName(p.tasks, ref.Select)
	if len(ref.Select.Metadata) == 0 { // metadata is in the tasks' files
		p.tasks = sample(p.tasks, registryName, ref.Select.N, ref.Select.Seed)
	}
	return p, nil
}

// LoadRegistry loads a registry and notifies if the copy is not current.
func (s *Source) LoadRegistry(ctx context.Context, source string) (*registry.Registry, error) {
	opts := s.Registry
	opts.Cache = s.Cache
	work := event.Begin(ctx, "Reading the registry", 0)
	reg, err := s.loadRepository(ctx, source)
	if errors.Is(err, errNoRepository) {
		reg, err = registry.Load(ctx, source, opts)
	}
	work.End()
	if err != nil {
		return nil, err
	}
	if reg.Notice != "" {
		s.notify("%s", reg.Notice)
	}
	return reg, nil
}

// loadPicks fetches and loads the tasks of registries into their sets.
func (s *Source) loadPicks(ctx context.Context, picks []*pick, sets []*Set) error {
	f, err := s.fetchAll(ctx, picks)
	if err != nil {
		return err
	}
	for i, p := range picks {
		if p == nil {
			continue
		}
		set := &Set{Name: p.dataset.Name, Version: p.dataset.Version, Format: p.ref.Options.Format, All: make([]string, len(p.dataset.Tasks))}
		for j := range p.dataset.Tasks {
			set.All[j] = p.dataset.Tasks[j].Name
		}
		var err error
		if set.Tasks, err = f.load(ctx, p); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		sets[i] = set
	}
	return nil
}

// taskDir returns the directory of a task without a repository. Its path is relative to the
// registry's directory.
func taskDir(reg *registry.Registry, path string) string {
	path = filepath.FromSlash(path)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(reg.Dir, path)
}

// Public returns a dataset of a registry for users: the addresses of its tasks have no credentials.
func Public(reg *registry.Registry, d *registry.Dataset) registry.Dataset {
	public := *d
	public.Tasks = slices.Clone(d.Tasks)
	for i := range public.Tasks {
		if t := &public.Tasks[i]; t.GitURL != "" {
			t.GitURL = publicSource(reg, t)
		}
	}
	return public
}

// publicSource returns the repository of a registry's task without credentials.
func publicSource(reg *registry.Registry, t *registry.Task) string {
	remote, err := git.ParseRemote(t.GitURL, reg.Dir, git.AllowLocal)
	if err != nil {
		return "not an address"
	}
	return remote.String()
}
