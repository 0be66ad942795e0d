package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/result"
)

const (
	maxBelow  = 2048 // bytes of a path below a trial's folder
	maxFolder = 64   // folders within folders, below a trial's
	batchSize = 64
)

// outcomes are what became of the planned trials, by index in the plan: a result if there is one, or an error if there is
// one that cannot be used.
type outcomes struct {
	trials []result.Trial
	there  []bool
	errs   []error
}

// group is the folder of an agent's trials on a dataset.
type group struct {
	agent, dataset string         // as folders
	trials         map[string]int // index in the plan by the folder's name
}

// batch is some trials of one group in one shard.
type batch struct {
	part  *shardDir
	group *group
	names []string
}

// linkTrials links all trials' folders into the draft and reads their results, by index in the plan.
func (m *merge) linkTrials(ctx context.Context, draft string) (*outcomes, error) {
	batches := m.batched
	sums, err := m.readTrialSums(m.groups)
	if err != nil {
		return nil, err
	}
	made := map[*group]bool{}
	for _, b := range batches {
		if !made[b.group] {
			made[b.group] = true
			if err := os.MkdirAll(filepath.Join(draft, b.group.agent, b.group.dataset), 0o755); err != nil {
				return nil, err
			}
		}
	}
	n := len(m.keys)
	out := &outcomes{trials: make([]result.Trial, n), there: make([]bool, n), errs: make([]error, n)}
	var next atomic.Int64
	var mu sync.Mutex // of m.skipped
	workers, ctx := errgroup.WithContext(ctx)
	for range min(len(batches), 2*runtime.GOMAXPROCS(0)) { // some wait for the disk
		workers.Go(func() error {
			p := linker{move: m.opts.Move, sums: sums}
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				m.skipped.n += p.skipped.n
				m.skipped.first = append(m.skipped.first, p.skipped.first...)
				slices.Sort(m.skipped.first)
				m.skipped.first = m.skipped.first[:min(3, len(m.skipped.first))]
			}()
			for i := int(next.Add(1)) - 1; i < len(batches); i = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := p.batch(batches[i], draft, m.keys, out); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return out, workers.Wait()
}

// groupsOf are the plan's trials by folder. Two in one folder are refused.
func groupsOf(keys []result.Key) (map[string]*group, error) {
	slugs := map[string]string{} // making one takes longer than everything else here
	slug := func(name string) string {
		s, ok := slugs[name]
		if !ok {
			s = result.Slug(name)
			slugs[name] = s
		}
		return s
	}
	groups := map[string]*group{}
	for i, key := range keys {
		agent, dataset := slug(key.Agent), slug(key.Dataset)
		g := groups[path.Join(agent, dataset)]
		if g == nil {
			if slices.Contains(result.ReservedNames, agent) {
				return nil, refuse("the plan is no job's: an agent's folder would be the file %s", agent)
			}
			g = &group{agent: agent, dataset: dataset, trials: map[string]int{}}
			groups[path.Join(agent, dataset)] = g
		}
		name := slug(key.Task) + "__" + strconv.Itoa(key.Attempt)
		if other, taken := g.trials[name]; taken {
			return nil, refuse("the plan is no job's: %s and %s would share a folder", keys[other], key)
		}
		g.trials[name] = i
	}
	return groups, nil
}

// batches are all folders of trials that the shards have. Groups take turns, as the file system makes only one folder
// at a time in another.
func (m *merge) batches(ctx context.Context, groups map[string]*group) ([]batch, error) {
	var rounds [][]batch
	for _, p := range m.parts {
		found, err := m.ownFolders(ctx, p, groups)
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			for round := 0; len(b.names) > 0; round++ {
				if round == len(rounds) {
					rounds = append(rounds, nil)
				}
				n := min(batchSize, len(b.names))
				rounds[round] = append(rounds[round], batch{part: b.part, group: b.group, names: b.names[:n]})
				b.names = b.names[n:]
			}
		}
	}
	return slices.Concat(rounds...), nil
}

// ownFolders are the folders of a shard's own trials, a batch for each group. Results of other trials in it are refused:
// such a folder was not written by one run.
func (m *merge) ownFolders(ctx context.Context, p *shardDir, groups map[string]*group) ([]batch, error) {
	root, err := openDir(unix.AT_FDCWD, p.dir)
	if err != nil {
		return nil, fmt.Errorf("read shard %s: %w", p.label, err)
	}
	defer root.Close()
	var out []batch
	err = eachFolder(root, func(agentName string, agent *os.File) error {
		if agentName == result.SupersededDir {
			return nil // of trials that count no more
		}
		return eachFolder(agent, func(datasetName string, dataset *os.File) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b := batch{part: p, group: groups[path.Join(agentName, datasetName)]}
			entries, err := dataset.ReadDir(-1)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if !e.IsDir() {
					continue
				}
				if b.group != nil {
					if i, ok := b.group.trials[e.Name()]; ok && m.shardOf[i] == p.index {
						b.names = append(b.names, e.Name())
						continue
					}
				}
				if err := m.refuseForeign(p, dataset, path.Join(agentName, datasetName), e.Name(), b.group); err != nil {
					return err
				}
			}
			if len(b.names) > 0 {
				slices.Sort(b.names)
				out = append(out, b)
			}
			return nil
		})
	})
	var refusal Refusal
	if err != nil && !errors.As(err, &refusal) {
		err = fmt.Errorf("read shard %s: %w", p.label, err)
	}
	return out, err
}

// refuseForeign refuses the result of a trial that is not the shard's. A folder without one is left out.
func (m *merge) refuseForeign(p *shardDir, dataset *os.File, below, name string, g *group) error {
	where := path.Join(below, name)
	if !exists(dataset, name+"/"+result.ResultFile) {
		m.skipped.add(where)
		return nil
	}
	if g != nil {
		if i, ok := g.trials[name]; ok {
			owner := result.Shard{Index: m.shardOf[i], Total: m.total}
			return refuse("%s (shard %s) has a result of %s, which is shard %s's: it was not written by one run of that shard, or was damaged on its way (then download it again)",
				p.label, p.name(), m.keys[i], owner)
		}
	}
	return refuse("%s (shard %s) has a result in %s, which is no trial of the plan: it was not written by one run of that shard, or was damaged on its way (then download it again)", p.label, p.name(), where)
}

func exists(dir *os.File, name string) bool {
	var stat unix.Stat_t
	return unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// eachFolder opens the folders in a folder, one after the other. Links and hidden ones are passed over.
func eachFolder(dir *os.File, do func(name string, folder *os.File) error) error {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		folder, err := openDir(int(dir.Fd()), e.Name(), dir.Name())
		if err != nil {
			return err
		}
		err = errors.Join(do(e.Name(), folder), folder.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// openDir opens a folder in the folder at, which must not be a link. in is the path of at.
func openDir(at int, name string, in ...string) (*os.File, error) {
	full := filepath.Join(append(in, name)...)
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	return os.NewFile(uintptr(fd), full), nil
}

// retryEINTR tries again what a signal interrupted.
func retryEINTR(open func() (int, error)) (int, error) {
	for {
		fd, err := open()
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// openRegular opens a file, which must not be a link or anything that could block.
func openRegular(file string) (*os.File, error) {
	return openRegularAt(unix.AT_FDCWD, file, file)
}

func openRegularAt(at int, name, full string) (*os.File, error) {
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, &os.PathError{Op: "open", Path: full, Err: errors.New("is not a file")}
	}
	return os.NewFile(uintptr(fd), full), nil
}

// linker links trials' folders. It is one worker's.
type linker struct {
	move    bool   // folders instead of linking their files
	copies  bool   // the shard's file system has no links to the output's
	buffer  []byte // of results
	skipped omissions
	sums    *trialSums // nil: results are not compared with any
	without string     // the name of a file at the top of trials' folders that is left out; "": none
}

// batch places some trials.
func (p *linker) batch(b batch, draft string, keys []result.Key, out *outcomes) error {
	p.copies = false
	from := filepath.Join(b.part.dir, b.group.agent, b.group.dataset)
	source, err := openBelow(b.part.dir, b.group.agent, b.group.dataset)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := openDir(unix.AT_FDCWD, filepath.Join(draft, b.group.agent, b.group.dataset))
	if err != nil {
		return err
	}
	defer target.Close()
	for _, name := range b.names {
		folder, err := openDir(int(source.Fd()), name, from)
		if err != nil {
			return err
		}
		err = p.link(folder, source, target, name)
		if err == nil {
			i := b.group.trials[name]
			out.there[i], out.errs[i] = p.read(folder, filepath.Join(b.part.label, b.group.agent, b.group.dataset, name), keys[i], &out.trials[i],
				func(text []byte, file string) error { return p.sums.check(i, b.part.index, text, file) })
		}
		if err := errors.Join(err, folder.Close()); err != nil {
			return err
		}
	}
	return nil
}

// link puts a trial's folder into target.
func (p *linker) link(folder, source, target *os.File, name string) error {
	if !p.move {
		return p.folder(folder, target, name, 0)
	}
	if movable(folder, 0) {
		err := unix.Renameat(int(source.Fd()), name, int(target.Fd()), name)
		if !errors.Is(err, unix.EXDEV) {
			return pathError("rename", filepath.Join(target.Name(), name), err)
		}
	}
	if _, err := folder.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.folder(folder, target, name, 0)
}

// movable reports whether all that is in a folder may be kept, so that it can be moved as a whole.
func movable(folder *os.File, depth int) bool {
	entries, err := folder.ReadDir(-1)
	if err != nil || depth == maxFolder {
		return false
	}
	for _, e := range entries {
		if !ordinary(e.Name()) || !e.IsDir() && !e.Type().IsRegular() {
			return false
		}
		if !e.IsDir() {
			continue
		}
		below, err := openDir(int(folder.Fd()), e.Name(), folder.Name())
		if err != nil {
			return false
		}
		ok := movable(below, depth+1)
		if err := below.Close(); err != nil || !ok {
			return false
		}
	}
	return true
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

// openBelow opens a folder two levels below another, without following links.
func openBelow(dir, agent, dataset string) (*os.File, error) {
	root, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	middle, err := openDir(int(root.Fd()), agent, dir)
	if err != nil {
		return nil, err
	}
	defer middle.Close()
	return openDir(int(middle.Fd()), dataset, middle.Name())
}

// folder makes the folder on, a path below target, with what is in source.
func (p *linker) folder(source, target *os.File, on string, depth int) error {
	if err := unix.Mkdirat(int(target.Fd()), on, 0o755); err != nil {
		return pathError("mkdir", filepath.Join(target.Name(), on), err)
	}
	entries, err := source.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		below := on + "/" + name
		switch {
		case depth == 0 && p.without != "" && name == p.without:
		case !ordinary(name), len(below) > maxBelow, depth == maxFolder:
			p.skipped.add(below)
		case e.Type().IsRegular():
			err = p.file(source, target, name, below)
		case e.IsDir():
			err = p.subfolder(source, target, name, below, depth)
		default:
			p.skipped.add(below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *linker) subfolder(source, target *os.File, name, below string, depth int) error {
	folder, err := openDir(int(source.Fd()), name, source.Name())
	if err != nil {
		return err
	}
	return errors.Join(p.folder(folder, target, below, depth+1), folder.Close())
}

// file links a file, or copies it where that cannot be.
func (p *linker) file(source, target *os.File, name, below string) error {
	if !p.copies {
		err := unix.Linkat(int(source.Fd()), name, int(target.Fd()), below, 0)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EXDEV):
			p.copies = true
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EMLINK), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOTSUP):
			// Linux lets nobody link files of others that they may not write (fs.protected_hardlinks).
		default:
			return &os.LinkError{Op: "link", Old: filepath.Join(source.Name(), name), New: filepath.Join(target.Name(), below), Err: err}
		}
	}
	return copyFile(source, target, name, below)
}

func copyFile(source, target *os.File, name, below string) (err error) {
	from, err := openRegularAt(int(source.Fd()), name, filepath.Join(source.Name(), name))
	if err != nil {
		return err
	}
	defer from.Close()
	full := filepath.Join(target.Name(), below)
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(int(target.Fd()), below, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	})
	if err != nil {
		return &os.PathError{Op: "create", Path: full, Err: err}
	}
	to := os.NewFile(uintptr(fd), full)
	_, err = to.ReadFrom(from)
	return errors.Join(err, to.Close())
}

// read reads a trial's result, if there is one. label is the folder for people: where an archive was unpacked is gone
// when they read of it. check may refuse what is in the file.
func (p *linker) read(folder *os.File, label string, key result.Key, into *result.Trial, check func(text []byte, file string) error) (bool, error) {
	full := filepath.Join(label, result.ResultFile)
	data, err := p.content(folder, full)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := check(data, full); err != nil {
		return false, err
	}
	if err := result.ParseTrial(data, key, into); err != nil {
		*into = result.Trial{}
		return false, fmt.Errorf("%s: %w", full, err)
	}
	return true, nil
}

// content is the text of a result.json. It is valid until the next call.
func (p *linker) content(folder *os.File, full string) ([]byte, error) {
	fd, err := retryEINTR(func() (int, error) {
		return unix.Openat(int(folder.Fd()), result.ResultFile, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	switch err := unix.Fstat(fd, &stat); {
	case err != nil:
		return nil, &os.PathError{Op: "stat", Path: full, Err: err}
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s: is not a file", full)
	case stat.Size > result.MaxTrialFile:
		return nil, fmt.Errorf("%s: has %d bytes, which no result has", full, stat.Size)
	}
	if int64(cap(p.buffer)) < stat.Size {
		p.buffer = make([]byte, 2*stat.Size)
	}
	data, n := p.buffer[:stat.Size], 0
	for n < len(data) {
		got, err := unix.Read(fd, data[n:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: full, Err: err}
		case got == 0:
			return data[:n], nil
		}
		n += got
	}
	return data, nil
}
