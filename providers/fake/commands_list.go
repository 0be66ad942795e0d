package fake

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// listCommands look at files without reading them.
var listCommands = map[string]func(*command) int{
	"ls": ls, "stat": stat, "find": find, "readlink": readlink, "realpath": realpath,
	"basename": basename, "dirname": dirname, "du": du,
}

// unixMode is a mode as a number, with the setuid, setgid and sticky bits.
func unixMode(mode fs.FileMode) uint32 {
	n := uint32(mode.Perm())
	for name, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&name != 0 {
			n |= bit
		}
	}
	return n
}

func ls(c *command) int {
	flags, err := c.options("aA1ldRh", "all=a")
	if err != nil {
		return c.usage("%v", err)
	}
	names := c.args
	if len(names) == 0 {
		names = []string{"."}
	}
	code := 0
	for i, name := range names {
		at, err := c.m().stat(c.p, c.path(name), flags['l'] == "")
		if err != nil {
			code = 2 * c.fail("cannot access '"+name+"'", err)
			continue
		}
		if !at.IsDir() || flags['d'] != "" {
			at.name = name
			c.listEntry(at, flags['l'] != "")
			continue
		}
		if len(names) > 1 {
			if i > 0 {
				c.print("\n")
			}
			c.print("%s:\n", name)
		}
		list, err := c.m().readDir(c.p, c.path(name))
		if err != nil {
			code = 2 * c.fail("cannot open directory '"+name+"'", err)
		}
		for _, entry := range list {
			if entry.name[0] != '.' || flags['a'] != "" || flags['A'] != "" {
				c.listEntry(entry, flags['l'] != "")
			}
		}
	}
	return code
}

func (c *command) listEntry(i info, long bool) {
	if !long {
		c.print("%s\n", i.name)
		return
	}
	arrow := ""
	if i.target != "" {
		arrow = " -> " + i.target
	}
	c.print("%s %d %s %s %d %s %s%s\n", modeText(i.mode), i.links, c.m().userName(i.uid), c.m().groupName(i.gid),
		i.size, i.modified.UTC().Format("Jan _2 15:04"), i.name, arrow)
}

// modeText is a mode as ls shows it.
func modeText(mode fs.FileMode) string {
	kind := map[fs.FileMode]string{fs.ModeDir: "d", fs.ModeSymlink: "l", fs.ModeNamedPipe: "p",
		fs.ModeDevice: "b", fs.ModeDevice | fs.ModeCharDevice: "c"}[mode.Type()]
	if kind == "" {
		kind = "-"
	}
	return kind + mode.Perm().String()[1:]
}

// kindText is a type of file as stat names it.
func kindText(i info) string {
	switch i.mode.Type() {
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeDevice:
		return "block special file"
	case fs.ModeDevice | fs.ModeCharDevice:
		return "character special file"
	}
	if i.size == 0 {
		return "regular empty file"
	}
	return "regular file"
}

func stat(c *command) int {
	flags, err := c.options("c:L", "format=c")
	if err != nil || flags['c'] == "" {
		return c.usage("want -c FORMAT (%v)", err)
	}
	code := 0
	for _, name := range c.args {
		i, err := c.m().stat(c.p, c.path(name), flags['L'] != "")
		if err != nil {
			code = c.fail("cannot stat '"+name+"'", err)
			continue
		}
		c.print("%s\n", strings.NewReplacer(
			"%n", name, "%a", strconv.FormatUint(uint64(unixMode(i.mode)), 8), "%A", modeText(i.mode),
			"%u", strconv.Itoa(i.uid), "%g", strconv.Itoa(i.gid), "%U", c.m().userName(i.uid), "%G", c.m().groupName(i.gid),
			"%s", strconv.FormatInt(i.size, 10), "%F", kindText(i), "%h", strconv.Itoa(i.links),
			"%Y", strconv.FormatInt(i.modified.Unix(), 10), "%%", "%",
		).Replace(flags['c']))
	}
	return code
}

// finder is a parsed expression of find.
type finder struct {
	args     []string
	maxDepth int
	err      error
}

type test func(name string, i info) bool

// find knows -type, -name, -maxdepth, -empty, -not, -o and -print.
func find(c *command) int {
	split := slices.IndexFunc(c.args, func(a string) bool { return strings.HasPrefix(a, "-") || a == "!" })
	roots, f := c.args, &finder{maxDepth: 1 << 30}
	if split >= 0 {
		roots, f.args = c.args[:split], c.args[split:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	matches := f.either()
	if f.err != nil {
		return c.usage("%v", f.err)
	}
	code := 0
	for _, root := range roots {
		if err := c.findIn(root, 0, f.maxDepth, matches); err != nil {
			code = c.fail(root, err)
		}
	}
	return code
}

func (c *command) findIn(shown string, depth, maxDepth int, matches test) error {
	i, err := c.m().stat(c.p, c.path(shown), false)
	if err != nil {
		return err
	}
	if matches(base(shown), i) && !c.print("%s\n", shown) {
		return nil
	}
	if !i.IsDir() || depth == maxDepth {
		return nil
	}
	list, err := c.m().readDir(c.p, c.path(shown))
	if err != nil {
		return err
	}
	for _, entry := range list {
		if err := c.findIn(strings.TrimSuffix(shown, "/")+"/"+entry.name, depth+1, maxDepth, matches); err != nil {
			return err
		}
	}
	return nil
}

// either is tests joined by -o, each of which is a list of tests that must all hold.
func (f *finder) either() test {
	all := func(string, info) bool { return true }
	for f.err == nil && len(f.args) > 0 && f.args[0] != "-o" {
		first, second := all, f.single()
		all = func(name string, i info) bool { return first(name, i) && second(name, i) }
	}
	if f.err != nil || len(f.args) == 0 {
		return all
	}
	f.args = f.args[1:]
	other := f.either()
	return func(name string, i info) bool { return all(name, i) || other(name, i) }
}

func (f *finder) single() test {
	word, value := f.args[0], ""
	f.args = f.args[1:]
	if slices.Contains([]string{"-type", "-name", "-maxdepth"}, word) {
		if len(f.args) == 0 {
			f.err = fmt.Errorf("%s needs a value", word)
			return nil
		}
		value, f.args = f.args[0], f.args[1:]
	}
	yes := func(string, info) bool { return true }
	switch word {
	case "-print":
		return yes
	case "-maxdepth":
		f.maxDepth, f.err = strconv.Atoi(value)
		return yes
	case "-empty":
		return func(_ string, i info) bool { return i.size == 0 || i.IsDir() && i.links == 2 }
	case "-type":
		return func(_ string, i info) bool { return strings.Replace(modeText(i.mode)[:1], "-", "f", 1) == value }
	case "-name":
		return func(name string, _ info) bool { ok, _ := path.Match(value, name); return ok }
	case "-not", "!":
		if len(f.args) > 0 {
			inner := f.single()
			return func(name string, i info) bool { return !inner(name, i) }
		}
	}
	f.err = fmt.Errorf("unknown test %s", word)
	return yes
}

func readlink(c *command) int {
	flags, err := c.options("fen")
	if err != nil {
		return c.usage("%v", err)
	}
	if flags['f'] != "" || flags['e'] != "" {
		return realpath(c)
	}
	return c.one(func(arg string) error {
		target, err := c.m().readlink(c.p, c.path(arg))
		if err == nil {
			c.print("%s\n", target)
		}
		return err
	})
}

func realpath(c *command) int {
	return c.one(func(arg string) error {
		real, err := c.m().realPath(c.p, c.path(arg))
		if err == nil {
			c.print("%s\n", real)
		}
		return err
	})
}

// realPath is a path without links. Its last element need not exist.
func (m *machine) realPath(p *process, name string) (string, error) {
	names := elements(name)
	real := "/"
	for budget := 40; len(names) > 0; {
		next := path.Join(real, names[0])
		target, err := m.readlink(p, next)
		names = names[1:]
		switch {
		case err == nil && budget > 0:
			budget--
			if strings.HasPrefix(target, "/") {
				real = "/"
			}
			names = append(elements(target), names...)
		case err == nil:
			return "", syscall.ELOOP
		default:
			if _, err := m.stat(p, next, false); err != nil && len(names) > 0 {
				return "", err
			}
			real = next
		}
	}
	return real, nil
}

func basename(c *command) int {
	if len(c.args) == 0 {
		return c.usage("missing operand")
	}
	name := base(c.args[0])
	if len(c.args) > 1 && name != c.args[1] {
		name = strings.TrimSuffix(name, c.args[1])
	}
	c.print("%s\n", name)
	return 0
}

func dirname(c *command) int {
	return c.one(func(arg string) error {
		c.print("%s\n", path.Dir(strings.TrimRight(arg, "/")))
		return nil
	})
}

// du counts bytes: du -sb.
func du(c *command) int {
	if _, err := c.options("sbhk"); err != nil {
		return c.usage("%v", err)
	}
	return c.one(func(arg string) error {
		var sum int64
		err := c.walkTree(c.path(arg), true, func(_ string, i info) error { sum += i.size; return nil })
		c.print("%d\t%s\n", sum, arg)
		return err
	})
}
