package dockerfile

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/patternmatcher"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
	"github.com/org/rollout-action/providers/sandbox/internal/sources"
)

// copyFiles is a COPY instruction, or ADD with its downloads.
type copyFiles struct {
	name    string // COPY or ADD
	from    origin
	context bool // from is the context, not a stage or image
	line    int
	sources []sourcePath
	texts   []instructions.SourceContent
	urls    []string
	sum     string // required digest of the download
	unpack  sources.Unpacking
	dest    string // absolute
	toDir   bool   // dest must be a directory
	chown   string
	chmod   string
	change  modeChange
	exclude []string
	parents bool
}

// sourcePath is a path or pattern; both parts are absolute.
type sourcePath struct {
	root string // for --parents: the directory that names are relative to
	path string
}

// copy plans a COPY instruction.
func (p *planner) copy(st *stage, c config, cmd *instructions.CopyCommand, line int) (operation, error) {
	for _, src := range cmd.SourcePaths {
		if isURL(src) || isGit(src) {
			return nil, fmt.Errorf("COPY %s: only ADD can download", src)
		}
	}
	op := &copyFiles{name: "COPY", line: line, context: cmd.From == "", chown: cmd.Chown, chmod: cmd.Chmod, parents: cmd.Parents, exclude: cmd.ExcludePatterns}
	if cmd.From != "" {
		var err error
		if op.from, err = p.stages.origin(st, cmd.From); err != nil {
			return nil, err
		}
	}
	err := op.setPaths(c, cmd.SourcesAndDest)
	return op, err
}

// setPaths sets the fields common to COPY and ADD.
func (op *copyFiles) setPaths(c config, paths instructions.SourcesAndDest) error {
	for _, src := range paths.SourcePaths {
		if isURL(src) {
			op.urls = append(op.urls, src)
			continue
		}
		from := sourcePath{root: "/", path: path.Join("/", src)}
		if root, rest, ok := strings.Cut(src, "/./"); ok && op.parents {
			from = sourcePath{root: path.Join("/", root), path: path.Join("/", rest)}
		}
		op.sources = append(op.sources, from)
	}
	op.texts = paths.SourceContents
	op.dest = c.absolute(paths.DestPath)
	op.toDir = op.parents || paths.DestPath == "." || paths.DestPath == "" || op.dest == "/" ||
		strings.HasSuffix(paths.DestPath, "/") || strings.HasSuffix(paths.DestPath, "/.")
	if _, err := patternmatcher.New(op.exclude); err != nil {
		return fmt.Errorf("%s --exclude: %w", op.name, err)
	}
	change, err := parseMode(op.chmod)
	op.change = change
	if err != nil {
		return fmt.Errorf("%s %w", op.name, err)
	}
	return nil
}

// prepare implements operation.
func (op *copyFiles) prepare(ctx context.Context, b *builder, k key) (apply, error) {
	k.text(op.dest, op.chown, op.chmod)
	k.flag(op.toDir)
	k.flag(op.parents)
	k.list(op.exclude)
	k.number(int64(op.unpack))
	k.number(int64(len(op.texts)))
	for _, text := range op.texts {
		k.text(text.Path, text.Data)
	}
	downloads, err := b.downloads(ctx, op, k)
	if err != nil {
		return nil, err
	}
	if err := op.sumSources(ctx, b, k); err != nil {
		return nil, err
	}
	return func(ctx context.Context, root machine.Root) error {
		return b.open(ctx, op.context, op.from, func(ctx context.Context, t sources.Tree) error {
			items, err := op.items(ctx, b, t, downloads)
			if err != nil {
				return err
			}
			return op.copyInto(ctx, root, items)
		})
	}, nil
}

// sumSources adds the sources to a key: the content of files of the context, but only the names of
// files of an image, because its ID covers the rest.
func (op *copyFiles) sumSources(ctx context.Context, b *builder, k key) error {
	k.flag(op.context)
	k.number(int64(len(op.sources)))
	for _, src := range op.sources {
		k.text(src.root, src.path)
	}
	if !op.context {
		image, err := b.image(ctx, op.from)
		if err != nil {
			return err
		}
		k.text(image.ID)
		return nil
	}
	return b.open(ctx, true, op.from, func(ctx context.Context, t sources.Tree) error {
		items, err := op.fromTree(ctx, b, t)
		if err != nil {
			return err
		}
		k.number(int64(len(items)))
		for _, it := range items {
			k.text(it.base)
			if err := it.sum(ctx, k); err != nil {
				return err
			}
		}
		return nil
	})
}

// items returns the items to copy, in the order of the instruction.
func (op *copyFiles) items(ctx context.Context, b *builder, t sources.Tree, downloads []item) ([]item, error) {
	items, err := op.fromTree(ctx, b, t)
	if err != nil {
		return nil, err
	}
	items = append(items, downloads...)
	for _, text := range op.texts {
		items = append(items, item{base: path.Base(text.Path), tree: textFile(text.Data), path: "/"})
	}
	return items, nil
}

// fromTree returns the sources in a tree.
func (op *copyFiles) fromTree(ctx context.Context, b *builder, t sources.Tree) ([]item, error) {
	var items []item
	for _, src := range op.sources {
		if op.parents {
			more, err := op.withParents(ctx, b, t, src)
			if err != nil {
				return nil, err
			}
			items = append(items, more...)
			continue
		}
		matches, err := sources.Glob(ctx, t, src.path)
		if err != nil {
			return nil, err
		}
		if len(matches) == 0 {
			if err := op.missing(b, t, src.path); err != nil {
				return nil, err
			}
		}
		for _, match := range matches {
			it, err := op.item(ctx, t, match)
			if err != nil {
				return nil, err
			}
			if it.tree != nil {
				items = append(items, it)
			}
		}
	}
	return items, nil
}

// item returns the item for one match. Its tree is nil if --exclude drops it.
func (op *copyFiles) item(ctx context.Context, t sources.Tree, match sources.Match) (item, error) {
	it := item{base: path.Base(match.Name), tree: t, path: match.Path, dir: match.Dir}
	if len(op.exclude) > 0 {
		matcher, err := patternmatcher.New(op.exclude)
		if err != nil {
			return item{}, err
		}
		if !match.Dir {
			if out, err := matcher.MatchesOrParentMatches(it.base); err != nil || out {
				return item{}, err
			}
		}
		it.drop = matcher
	}
	if op.unpack == sources.UnpackNever || match.Dir {
		return it, nil
	}
	var err error
	it.archive, err = sources.IsArchive(ctx, t, it.path)
	if err != nil {
		return item{}, fmt.Errorf("%s %s: %w", op.name, strings.TrimPrefix(match.Name, "/"), err)
	}
	return it, nil
}

// withParents returns the sources of COPY --parents, whose names include their parent directories.
func (op *copyFiles) withParents(ctx context.Context, b *builder, t sources.Tree, src sourcePath) ([]item, error) {
	roots, err := sources.Glob(ctx, t, src.root)
	if err != nil {
		return nil, err
	}
	var items []item
	for _, root := range roots {
		if !root.Dir {
			continue
		}
		more, err := op.matchBelow(ctx, t, root, strings.TrimPrefix(src.path, "/"))
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	if len(items) == 0 {
		return nil, op.missing(b, t, path.Join(src.root, src.path))
	}
	return items, nil
}

// matchBelow returns the matches of a pattern with "**" in a directory.
func (op *copyFiles) matchBelow(ctx context.Context, t sources.Tree, root sources.Match, pattern string) ([]item, error) {
	fixed, rest := fixedPart(pattern)
	at, err := t.Stat(ctx, path.Join(root.Path, fixed))
	if err != nil || !at.Exists {
		return nil, err
	}
	it := item{base: path.Base(fixed), tree: t, path: at.Path, dir: at.Dir, prefix: fixed}
	if rest != "" {
		if !at.Dir {
			return nil, nil
		}
		if it.only, err = patternmatcher.New([]string{rest}); err != nil {
			return nil, fmt.Errorf("%s: %w", pattern, err)
		}
	}
	if len(op.exclude) > 0 {
		if it.drop, err = patternmatcher.New(op.exclude); err != nil {
			return nil, err
		}
	}
	return []item{it}, nil
}

// fixedPart splits a pattern at its first wildcard.
func fixedPart(pattern string) (fixed, rest string) {
	parts := strings.Split(path.Clean(pattern), "/")
	for i, part := range parts {
		if sources.HasWildcard(part) {
			return path.Join(parts[:i]...), path.Join(parts[i:]...)
		}
	}
	return path.Join(parts...), ""
}

// missing returns the error for a source that does not exist. A pattern without matches only gets a
// note.
func (op *copyFiles) missing(b *builder, t sources.Tree, src string) error {
	name := strings.TrimPrefix(src, "/")
	if sources.HasWildcard(src) {
		b.notef(op, "%s: nothing matches %s", op.name, name)
		return nil
	}
	f, ok := t.(*sources.Context)
	switch {
	case !ok:
		return fmt.Errorf("%s --from=%s: %s is not there: %w", op.name, b.nameOf(op.from), src, fs.ErrNotExist)
	case f.Hidden(src):
		return fmt.Errorf("%s: %s is hidden by %s: %w", op.name, name, ignoreName, fs.ErrNotExist)
	}
	return fmt.Errorf("%s: %s is not in the directory of the Dockerfile: %w", op.name, name, fs.ErrNotExist)
}
