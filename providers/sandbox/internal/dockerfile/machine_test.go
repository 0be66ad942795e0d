package dockerfile

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
	"github.com/org/rollout-action/providers/sandbox/internal/sources"
)

// memory is a machine whose files are in a map. It runs no programs: a test provides functions in
// place of commands.
type memory struct {
	images map[string]testImage
	run    func(*memoryRoot, machine.Command) (int, error)

	froms    []string
	layers   map[string]memoryLayer // by key
	commands []machine.Command
	made     []string // keys, in order
	asked    []string // keys, in order
	count    int
}

type testImage struct {
	machine.Image
	files files
}

// files is a root file system, keyed by absolute path.
type files map[string]node

type node struct {
	kind     byte // as in archives
	content  string
	link     string
	mode     int64
	uid, gid int
}

type memoryLayer struct {
	id    string
	files files
}

func newMemory() *memory {
	base := files{
		"/":           {kind: tar.TypeDir, mode: 0o755},
		"/bin":        {kind: tar.TypeSymlink, link: "usr/bin"},
		"/etc":        {kind: tar.TypeDir, mode: 0o755},
		"/etc/passwd": {kind: tar.TypeReg, mode: 0o644, content: "root:x:0:0::/root:/bin/sh\nagent:x:1000:100::/home/agent:/bin/sh\n"},
		"/etc/group":  {kind: tar.TypeReg, mode: 0o644, content: "root:x:0:\nusers:x:100:\nstaff:x:50:\n"},
		"/tmp":        {kind: tar.TypeDir, mode: 0o1777},
		"/usr":        {kind: tar.TypeDir, mode: 0o755},
		"/usr/bin":    {kind: tar.TypeDir, mode: 0o755},
		"/usr/bin/sh": {kind: tar.TypeReg, mode: 0o755, content: "shell"},
	}
	return &memory{
		layers: map[string]memoryLayer{},
		images: map[string]testImage{
			"scratch":   {machine.Image{ID: "scratch"}, files{"/": {kind: tar.TypeDir, mode: 0o755}}},
			"debian:12": {machine.Image{ID: "debian-12", Layers: []string{"debian"}, Env: []string{"PATH=/usr/bin", "LANG=C"}, Base: "the base"}, base},
		},
	}
}

func (m *memory) From(ctx context.Context, ref string) (machine.Image, error) {
	m.froms = append(m.froms, ref)
	image, ok := m.images[ref]
	if !ok {
		return machine.Image{}, fmt.Errorf("no image %s", ref)
	}
	return image.Image, ctx.Err()
}

// root returns a copy of an image's files.
func (m *memory) root(image machine.Image) files {
	for _, known := range m.images {
		if len(image.Layers) == 0 && image.ID == known.ID || len(image.Layers) == 1 && slices.Equal(image.Layers, known.Layers) {
			return maps.Clone(known.files)
		}
	}
	top := image.Layers[len(image.Layers)-1]
	for _, layer := range m.layers {
		if layer.id == top {
			return maps.Clone(layer.files)
		}
	}
	panic("no layer " + top)
}

func (m *memory) Layer(ctx context.Context, key string, under machine.Image, fresh bool, do func(context.Context, machine.Root) error) (string, bool, error) {
	m.asked = append(m.asked, key)
	if layer, ok := m.layers[key]; ok && !fresh {
		return layer.id, false, nil
	}
	root := &memoryRoot{m: m, files: m.root(under)}
	if err := do(ctx, root); err != nil {
		return "", true, fmt.Errorf("make a layer: %w", err)
	}
	m.count++
	id := fmt.Sprintf("layer%d", m.count)
	m.layers[key] = memoryLayer{id, root.files}
	m.made = append(m.made, key)
	return id, true, nil
}

func (m *memory) Visit(ctx context.Context, image machine.Image, do func(context.Context, machine.Root) error) error {
	return do(ctx, &memoryRoot{m: m, files: m.root(image)})
}

// memoryRoot is a root file system in memory.
type memoryRoot struct {
	m     *memory
	files files
}

func (b *memoryRoot) Run(ctx context.Context, c machine.Command) (int, error) {
	b.m.commands = append(b.m.commands, c)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if b.m.run != nil {
		return b.m.run(b, c)
	}
	return 0, nil
}

// resolve follows links, the last element's only if last is set.
func (b *memoryRoot) resolve(name string, last bool) string {
	done, rest := "/", strings.Split(strings.Trim(name, "/"), "/")
	for hops := 0; len(rest) > 0 && hops < 100; hops++ {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		n, ok := b.files[next]
		if !ok || n.kind != tar.TypeSymlink || len(rest) == 0 && !last {
			done = next
			continue
		}
		if path.IsAbs(n.link) {
			done = "/"
		}
		rest = append(strings.Split(strings.Trim(n.link, "/"), "/"), rest...)
	}
	return done
}

func (b *memoryRoot) Stat(_ context.Context, name string) (machine.Info, error) {
	if name != path.Clean(name) || !path.IsAbs(name) {
		return machine.Info{}, fmt.Errorf("look: %q is not absolute and clean", name)
	}
	real := b.resolve(name, true)
	n, ok := b.files[real]
	info := machine.Info{Path: real, Exists: ok, Dir: n.kind == tar.TypeDir}
	if info.Dir {
		for other := range b.files {
			if other != "/" && path.Dir(other) == real {
				info.Names = append(info.Names, path.Base(other))
			}
		}
		slices.Sort(info.Names)
	}
	return info, nil
}

func (b *memoryRoot) Put(ctx context.Context, r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if h.Name != sources.Relative(h.Name) {
			return fmt.Errorf("put: %q is not relative and clean", h.Name)
		}
		if h.Uname != "" || h.Gname != "" {
			return fmt.Errorf("put: %q has names of owners", h.Name)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		if err := b.put(h, string(content)); err != nil {
			return err
		}
	}
}

func (b *memoryRoot) put(h *tar.Header, content string) error {
	name := b.resolve("/"+h.Name, false)
	var missing []string
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		n, ok := b.files[dir]
		if ok && n.kind != tar.TypeDir {
			return fmt.Errorf("%s is not a directory", dir)
		}
		if !ok {
			missing = append(missing, dir)
		}
	}
	for _, dir := range missing {
		b.files[dir] = node{kind: tar.TypeDir, mode: 0o755}
	}
	old, ok := b.files[name]
	if ok && (old.kind == tar.TypeDir) != (h.Typeflag == tar.TypeDir) {
		return fmt.Errorf("%s: a directory and a file collide", name)
	}
	n := node{kind: h.Typeflag, content: content, mode: h.Mode, uid: h.Uid, gid: h.Gid}
	switch h.Typeflag {
	case tar.TypeSymlink:
		n.link = h.Linkname
	case tar.TypeLink:
		first, ok := b.files["/"+h.Linkname]
		if !ok {
			return fmt.Errorf("%s: link to %s, which is not there", name, h.Linkname)
		}
		n = first
	}
	b.files[name] = n
	return nil
}

func (b *memoryRoot) Get(_ context.Context, name string, w io.Writer) error {
	real := b.resolve(name, true)
	if _, ok := b.files[real]; !ok {
		return fmt.Errorf("get %s: %w", name, fs.ErrNotExist)
	}
	archive := tar.NewWriter(w)
	for _, other := range slices.SortedFunc(maps.Keys(b.files), func(a, b string) int {
		return cmp.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	}) {
		if other != real && !strings.HasPrefix(other, strings.TrimSuffix(real, "/")+"/") {
			continue
		}
		n := b.files[other]
		h := &tar.Header{
			Typeflag: n.kind, Name: sources.Relative(strings.TrimPrefix(other, real)), Linkname: n.link,
			Mode: n.mode, Uid: n.uid, Gid: n.gid, Size: int64(len(n.content)), Uname: "somebody",
		}
		if err := archive.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, n.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (b *memoryRoot) Remove(_ context.Context, name string) error {
	real := b.resolve(name, false)
	maps.DeleteFunc(b.files, func(other string, _ node) bool {
		return other == real || strings.HasPrefix(other, real+"/")
	})
	return nil
}

func (b *memoryRoot) Lookup(_ context.Context, user, group string) (uid, gid int, err error) {
	uid, err = strconv.Atoi(user)
	gid = uid
	if err != nil {
		line := b.line("/etc/passwd", user)
		if line == nil {
			return 0, 0, fmt.Errorf("there is no user %s", user)
		}
		uid, _ = strconv.Atoi(line[2])
		gid, _ = strconv.Atoi(line[3])
	}
	if group == "" {
		return uid, gid, nil
	}
	if gid, err = strconv.Atoi(group); err == nil {
		return uid, gid, nil
	}
	line := b.line("/etc/group", group)
	if line == nil {
		return 0, 0, fmt.Errorf("there is no group %s", group)
	}
	gid, _ = strconv.Atoi(line[2])
	return uid, gid, nil
}

func (b *memoryRoot) line(file, name string) []string {
	for line := range strings.Lines(b.files[file].content) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); fields[0] == name {
			return fields
		}
	}
	return nil
}

// minus lists the differences of a root file system from base.
func (f files) minus(base files) string {
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(f)) {
		n := f[name]
		if n == base[name] {
			continue
		}
		switch n.kind {
		case tar.TypeDir:
			fmt.Fprintf(&text, "%s/ %04o %d:%d\n", name, n.mode, n.uid, n.gid)
		case tar.TypeSymlink:
			fmt.Fprintf(&text, "%s -> %s\n", name, n.link)
		default:
			fmt.Fprintf(&text, "%s %04o %d:%d %q\n", name, n.mode, n.uid, n.gid, n.content)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if _, ok := f[name]; !ok {
			fmt.Fprintf(&text, "%s is gone\n", name)
		}
	}
	return text.String()
}
