package fake

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// fileCommands make, move and remove files.
var fileCommands = map[string]func(*command) int{
	"mkdir": mkdir, "rmdir": rmdir, "rm": rm, "cp": cp, "mv": mv, "ln": ln, "touch": touch, "chmod": chmod,
	"chown": chown, "truncate": truncate, "mkfifo": mkfifo, "mknod": mknod, "mktemp": mktemp,
}

// one calls do for every operand, and is 1 if one failed.
func (c *command) one(do func(arg string) error) int {
	if len(c.args) == 0 {
		return c.usage("missing operand")
	}
	code := 0
	for _, arg := range c.args {
		if err := do(arg); err != nil {
			code = c.fail("cannot do "+arg, err)
		}
	}
	return code
}

func mkdir(c *command) int {
	flags, err := c.options("pm:", "parents=p", "mode=m")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.one(func(arg string) error {
		path := c.path(arg)
		make := c.m().mkdir
		if flags['p'] != "" {
			make = c.m().mkdirAll
		}
		if err := make(c.p, path, 0o755); err != nil {
			return err
		}
		if mode := flags['m']; mode != "" {
			return c.chmod(path, mode)
		}
		return nil
	})
}

func rmdir(c *command) int {
	return c.one(func(arg string) error {
		if i, err := c.m().stat(c.p, c.path(arg), false); err == nil && !i.IsDir() {
			return syscall.ENOTDIR
		}
		return c.m().remove(c.p, c.path(arg))
	})
}

func rm(c *command) int {
	flags, err := c.options("rRfv", "recursive=r", "force=f")
	if err != nil {
		return c.usage("%v", err)
	}
	if len(c.args) == 0 && flags['f'] != "" {
		return 0
	}
	all := flags['r'] != "" || flags['R'] != ""
	return c.one(func(arg string) error {
		i, err := c.m().stat(c.p, strings.TrimRight(c.path(arg), "/"), false)
		switch {
		case err == nil && all:
			err = c.m().removeAll(c.p, c.path(arg))
		case err == nil && i.IsDir():
			err = syscall.EISDIR
		case err == nil:
			err = c.m().remove(c.p, c.path(arg))
		}
		if flags['f'] != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
			return nil
		}
		return err
	})
}

// into is where an operand lands when it is copied or moved to dst.
func (c *command) into(arg, dst string) string {
	if i, err := c.m().stat(c.p, c.path(dst), true); err == nil && i.IsDir() {
		return strings.TrimSuffix(c.path(dst), "/") + "/" + base(arg)
	}
	return c.path(dst)
}

// toLast calls do with every operand but the last, and where it is to land.
func (c *command) toLast(plain bool, do func(from, to string) error) int {
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	last := c.args[len(c.args)-1]
	c.args = c.args[:len(c.args)-1]
	return c.one(func(arg string) error {
		to := c.path(last)
		if !plain {
			to = c.into(arg, last)
		}
		return do(c.path(arg), to)
	})
}

func cp(c *command) int {
	flags, err := c.options("rRapfTdnLPv", "recursive=r", "archive=a")
	if err != nil {
		return c.usage("%v", err)
	}
	all := flags['r'] != "" || flags['R'] != "" || flags['a'] != ""
	return c.toLast(flags['T'] != "", func(from, to string) error {
		if strings.HasSuffix(from, "/.") {
			to = strings.TrimSuffix(to, "/.")
		}
		return c.copyTree(from, to, all)
	})
}

// copyTree copies a file, or a folder and what is in it. Links below it stay links.
func (c *command) copyTree(from, to string, all bool) error {
	i, err := c.m().stat(c.p, from, !all)
	switch {
	case err != nil:
		return err
	case i.mode&fs.ModeSymlink != 0:
		return c.m().symlink(c.p, i.target, to)
	case !i.IsDir():
		data, err := c.m().readFile(c.p, from)
		if err != nil {
			return err
		}
		return c.m().writeFile(c.p, to, data, i.mode.Perm())
	case !all:
		return errors.New("-r not specified; omitting directory")
	}
	if err := c.m().mkdir(c.p, to, i.mode.Perm()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	list, err := c.m().readDir(c.p, from)
	for _, entry := range list {
		err = errors.Join(err, c.copyTree(from+"/"+entry.name, to+"/"+entry.name, true))
	}
	return err
}

func mv(c *command) int {
	flags, err := c.options("fnTv", "force=f")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.toLast(flags['T'] != "", func(from, to string) error { return c.m().rename(c.p, from, to) })
}

func ln(c *command) int {
	flags, err := c.options("sfnT", "symbolic=s", "force=f")
	if err != nil {
		return c.usage("%v", err)
	}
	if len(c.args) == 1 {
		c.args = append(c.args, ".")
	}
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	target, at := c.args[0], c.args[1]
	to := c.into(target, at)
	if flags['n'] != "" || flags['T'] != "" {
		to = c.path(at)
	}
	if flags['f'] != "" {
		_ = c.m().remove(c.p, to)
	}
	if flags['s'] != "" {
		err = c.m().symlink(c.p, target, to)
	} else {
		err = c.m().link(c.p, c.path(target), to)
	}
	if err != nil {
		return c.fail(at, err)
	}
	return 0
}

func touch(c *command) int {
	if _, err := c.options("cam"); err != nil {
		return c.usage("%v", err)
	}
	return c.one(func(arg string) error { return c.m().touch(c.p, c.path(arg)) })
}

func chmod(c *command) int {
	all := false
	if len(c.args) > 0 && c.args[0] == "-R" {
		all, c.args = true, c.args[1:]
	}
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	mode := c.args[0]
	c.args = c.args[1:]
	return c.one(func(arg string) error {
		return c.walkTree(c.path(arg), all, func(path string, i info) error {
			if i.mode&fs.ModeSymlink != 0 && all {
				return nil
			}
			return c.chmod(path, mode)
		})
	})
}

// walkTree calls do with a file and, if all is set, what is below it, folders first.
func (c *command) walkTree(path string, all bool, do func(path string, i info) error) error {
	i, err := c.m().stat(c.p, path, !all)
	if err != nil {
		return err
	}
	if err := do(path, i); err != nil || !all || !i.IsDir() {
		return err
	}
	list, err := c.m().readDir(c.p, path)
	if err != nil {
		return err
	}
	for _, entry := range list {
		if err := c.walkTree(path+"/"+entry.name, all, do); err != nil {
			return err
		}
	}
	return nil
}

// chmod applies an octal or symbolic mode such as 755, +x or u+rw,go-w.
func (c *command) chmod(path, mode string) error {
	if n, err := strconv.ParseUint(mode, 8, 12); err == nil {
		perm := fs.FileMode(n & 0o777)
		for bit, name := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
			if n&bit != 0 {
				perm |= name
			}
		}
		return c.m().chmod(c.p, path, func(fs.FileMode) fs.FileMode { return perm })
	}
	for clause := range strings.SplitSeq(mode, ",") {
		at := strings.IndexAny(clause, "+-=")
		if at < 0 {
			return fmt.Errorf("invalid mode %q", mode)
		}
		var who, bits fs.FileMode
		for _, letter := range clause[:at] {
			who |= map[rune]fs.FileMode{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[letter]
		}
		if at == 0 {
			who = 0o777
		}
		for _, letter := range clause[at+1:] {
			bits |= map[rune]fs.FileMode{'r': 0o444, 'w': 0o222, 'x': 0o111, 'X': 0o111}[letter]
		}
		err := c.m().chmod(c.p, path, func(old fs.FileMode) fs.FileMode {
			switch clause[at] {
			case '+':
				return old | who&bits
			case '-':
				return old &^ (who & bits)
			}
			return old&^who | who&bits
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func chown(c *command) int {
	all := false
	if len(c.args) > 0 && c.args[0] == "-R" {
		all, c.args = true, c.args[1:]
	}
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	user, group, _ := strings.Cut(c.args[0], ":")
	c.args = c.args[1:]
	uid, gid := -1, -1
	var err1, err2 error
	if user != "" {
		uid, err1 = c.m().userID(user)
	}
	if group != "" {
		gid, err2 = c.m().groupID(group)
	}
	if err := errors.Join(err1, err2); err != nil {
		return c.fail("invalid owner", err)
	}
	return c.one(func(arg string) error {
		return c.walkTree(c.path(arg), all, func(path string, _ info) error { return c.m().chown(c.p, path, uid, gid) })
	})
}

func truncate(c *command) int {
	flags, err := c.options("s:c", "size=s")
	if err != nil {
		return c.usage("%v", err)
	}
	size, err := parseSize(flags['s'])
	if err != nil {
		return c.usage("%v", err)
	}
	return c.one(func(arg string) error { return c.m().truncate(c.p, c.path(arg), size) })
}

// parseSize reads 10, 10K, 10M or 10G.
func parseSize(s string) (int64, error) {
	number := strings.TrimRight(s, "kKMGiB")
	factor := int64(1)
	switch strings.TrimSuffix(strings.TrimPrefix(s, number), "iB") {
	case "k", "K":
		factor = 1 << 10
	case "M":
		factor = 1 << 20
	case "G":
		factor = 1 << 30
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("invalid size %q", s)
	}
	return n * factor, nil
}

func mkfifo(c *command) int {
	return c.one(func(arg string) error {
		return c.m().add(c.p, c.path(arg), &node{mode: fs.ModeNamedPipe | 0o644, links: 1})
	})
}

func mknod(c *command) int {
	if len(c.args) != 4 || c.args[1] != "c" && c.args[1] != "b" {
		return c.usage("want a name, c or b, a major and a minor number")
	}
	major, err1 := strconv.Atoi(c.args[2])
	minor, err2 := strconv.Atoi(c.args[3])
	if errors.Join(err1, err2) != nil || c.p.uid != 0 {
		return c.fail(c.args[0], os.ErrPermission)
	}
	n := newDevice(major, minor)
	if c.args[1] == "b" {
		n.mode = fs.ModeDevice | 0o644
	}
	c.args = c.args[:1]
	return c.one(func(arg string) error { return c.m().add(c.p, c.path(arg), n) })
}

func mktemp(c *command) int {
	flags, err := c.options("dtp:q", "directory=d")
	if err != nil {
		return c.usage("%v", err)
	}
	dir, template := "/tmp", "tmp.XXXXXXXXXX"
	if flags['p'] != "" {
		dir = c.path(flags['p'])
	}
	if len(c.args) > 0 {
		template = c.args[0]
		if flags['t'] == "" && flags['p'] == "" {
			dir = c.dir
		}
	}
	path := absolute(dir, strings.TrimRight(template, "X")+randomText(10))
	if flags['d'] != "" {
		err = c.m().mkdir(c.p, path, 0o700)
	} else {
		err = c.m().add(c.p, path, newFile(0o600, ""))
	}
	if err != nil {
		return c.fail(path, err)
	}
	c.print("%s\n", path)
	return 0
}
