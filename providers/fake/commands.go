package fake

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// commands are what there is besides bash's builtins, with the flags that they know. Some run others, so init sets it.
var commands map[string]struct {
	flags string
	run   func(*command) int
}

func init() {
	commands = map[string]struct {
		flags string
		run   func(*command) int
	}{
		"bash": {anyFlags, bash}, "sh": {anyFlags, bash}, "env": {anyFlags, env}, "nohup": {anyFlags, runArgs}, "setsid": {anyFlags, runArgs},
		"xargs": {anyFlags, runArgs}, "sleep": {"", sleep}, builtinPrefix + "kill": {anyFlags, kill}, "which": {"", which},
		"id": {"ugn", id}, "date": {anyFlags, date}, "curl": {"sfNp", curl}, "say-on": {"", sayOn},
		"mkdir": {"pm:", mkdir}, "rm": {"rf", rm}, "cp": {"", cp}, "mv": {"f", mv}, "ln": {"sf", ln}, "touch": {"", touch},
		"chmod": {anyFlags, chmod}, "chown": {"", chown}, "truncate": {"s:", truncate}, "mkfifo": {"", mkfifo},
		"ls": {"Aad", ls}, "stat": {"c:", stat}, "find": {anyFlags, find}, "readlink": {"", readlink},
		"cat": {"", cat}, "head": {"c:", head}, "wc": {"lc", wc}, "tr": {"", tr}, "cut": {"c:", cut},
		"sort": {"", sortLines}, "grep": {"qc", grep}, "seq": {"", seq}, "sha256sum": {"", checksum},
	}
}

// runArgs runs its arguments: sessions and hang-ups mean nothing here. xargs adds the words of the input.
func runArgs(c *command) int {
	if c.name == "xargs" {
		words := bufio.NewScanner(c.input())
		words.Split(bufio.ScanWords)
		for words.Scan() {
			c.args = append(c.args, words.Text())
		}
		c.stdin = nil
	}
	if len(c.args) == 0 {
		return c.usage("missing operand")
	}
	c.name, c.args = c.args[0], c.args[1:]
	return c.execute()
}

func env(c *command) int {
	vars := maps.Clone(c.env)
	for i, arg := range c.args {
		name, value, assigns := strings.Cut(arg, "=")
		switch {
		case arg == "-i":
			clear(vars)
		case assigns:
			vars[name] = value
		default:
			c.env, c.args = vars, c.args[i:]
			return runArgs(c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		_ = c.print("%s=%s\n", name, vars[name])
	}
	return 0
}

func sleep(c *command) int {
	return c.each("", func(arg string) error {
		seconds, err := strconv.ParseFloat(arg, 64)
		if err != nil || seconds < 0 {
			return errors.New("invalid time interval")
		}
		timer := time.NewTimer(time.Duration(min(seconds*1e9, 1<<62)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.p.ctx.Done():
		}
		return nil
	})
}

// signals are those that kill knows. -0 only asks.
var signals = map[string]syscall.Signal{
	"-0": 0, "-9": syscall.SIGKILL, "-KILL": syscall.SIGKILL, "-TERM": syscall.SIGTERM, "-INT": syscall.SIGINT, "-HUP": syscall.SIGHUP,
}

// kill sends a signal to processes; -1 are all others.
func kill(c *command) int {
	sig := syscall.SIGTERM
	if len(c.args) > 1 {
		var ok bool
		if sig, ok = signals[c.args[0]]; !ok {
			return c.usage("unknown signal %s", c.args[0])
		}
		c.args = c.args[1:]
	}
	return c.each("", func(arg string) error {
		pid, err := strconv.Atoi(arg)
		switch {
		case pid == -1:
			c.m().killAll(nil, c.p)
			return nil
		case err != nil || pid <= 0:
			return errors.New("single processes only")
		}
		return c.m().signal(c.p, pid, sig)
	})
}

func id(c *command) int {
	n, file := c.p.uid, "/etc/passwd"
	if c.flags['g'] != "" {
		n, file = c.p.gid, "/etc/group"
	}
	text := strconv.Itoa(n)
	if c.flags['n'] != "" {
		for _, account := range c.m().accounts(file) {
			if account[2] == text {
				text = account[0]
				break
			}
		}
	}
	_ = c.print("%s\n", text)
	return 0
}

// date knows the formats of seconds and their fractions.
func date(c *command) int {
	now := time.Now()
	nano := fmt.Sprintf("%09d", now.Nanosecond())
	_ = c.print("%s\n", strings.NewReplacer("+", "", "%s", strconv.FormatInt(now.Unix(), 10), "%3N", nano[:3], "%N", nano).Replace(strings.Join(c.args, " ")))
	return 0
}

func mkdir(c *command) int {
	return c.each("", func(arg string) error {
		if c.flags['p'] != "" {
			return c.m().mkdirAll(c.p, c.path(arg))
		}
		err := c.m().add(c.p, c.path(arg), newNode(fs.ModeDir|0o755, ""))
		if err != nil || c.flags['m'] == "" {
			return err
		}
		return c.chmod(c.path(arg), c.flags['m'])
	})
}

func rm(c *command) int {
	if len(c.args) == 0 && c.flags['f'] != "" {
		return 0
	}
	return c.each("", func(arg string) error {
		i, err := c.m().stat(c.p, strings.TrimRight(c.path(arg), "/"), false)
		if err == nil && i.IsDir() && c.flags['r'] == "" {
			return syscall.EISDIR
		}
		if err = c.m().remove(c.p, c.path(arg), true); c.flags['f'] != "" && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// toLast calls do with each operand but the last, and where it goes: the last, or below it if that is a directory.
func (c *command) toLast(do func(from, to string) error) int {
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	last := c.path(c.args[len(c.args)-1])
	c.args = c.args[:len(c.args)-1]
	i, err := c.m().stat(c.p, last, true)
	return c.each("", func(arg string) error {
		if err == nil && i.IsDir() {
			return do(arg, strings.TrimSuffix(last, "/")+"/"+base(arg))
		}
		return do(arg, last)
	})
}

func cp(c *command) int {
	return c.toLast(func(from, to string) error {
		i, err := c.m().stat(c.p, c.path(from), true)
		data, readErr := c.m().readFile(c.p, c.path(from))
		if err := cmp.Or(err, readErr); err != nil {
			return err
		}
		f, err := c.m().open(c.p, to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, i.mode.Perm())
		if err == nil {
			_, err = f.Write(data)
		}
		return err
	})
}

func mv(c *command) int {
	return c.toLast(func(from, to string) error { return c.m().link(c.p, c.path(from), to, true) })
}

func ln(c *command) int {
	return c.toLast(func(target, to string) error {
		if c.flags['f'] != "" {
			_ = c.m().remove(c.p, to, false)
		}
		if c.flags['s'] == "" {
			return c.m().link(c.p, c.path(target), to, false)
		}
		n := newNode(fs.ModeSymlink|0o777, "")
		n.target = target
		return c.m().add(c.p, to, n)
	})
}

func touch(c *command) int {
	return c.each("", func(arg string) error {
		f, err := c.m().open(c.p, c.path(arg), os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		return c.m().locked(c.p, arg, func() error { f.node.modified = time.Now(); return nil })
	})
}

func chmod(c *command) int {
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	mode := c.args[0]
	c.args = c.args[1:]
	return c.each("", func(arg string) error { return c.chmod(c.path(arg), mode) })
}

// chown knows the numbers of users.
func chown(c *command) int {
	if len(c.args) != 2 || c.p.uid != 0 {
		return c.usage("want root, a user's number and a file")
	}
	uid, err := strconv.Atoi(c.args[0])
	if err != nil {
		return c.usage("%v", err)
	}
	c.args = c.args[1:]
	return c.each("", func(arg string) error { return c.m().change(c.p, c.path(arg), func(n *node) { n.uid = uid }) })
}

// unixBits are the bits beyond the permissions.
var unixBits = map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// chmod applies an octal mode.
func (c *command) chmod(path, mode string) error {
	bits, err := strconv.ParseUint(mode, 8, 12)
	if err != nil {
		return fmt.Errorf("invalid mode %q", mode)
	}
	return c.m().change(c.p, path, func(n *node) {
		n.mode = n.mode.Type() | fs.FileMode(bits&0o777)
		for bit, name := range unixBits {
			if bits&bit != 0 {
				n.mode |= name
			}
		}
	})
}

// truncate knows sizes in bytes and with a G.
func truncate(c *command) int {
	text, giga := strings.CutSuffix(c.flags['s'], "G")
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 {
		return c.usage("invalid size %q", c.flags['s'])
	}
	if giga {
		size <<= 30
	}
	return c.each("", func(arg string) error {
		f, err := c.m().open(c.p, c.path(arg), os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		return c.m().locked(c.p, arg, func() error { f.node.truncate(size); return nil })
	})
}

func mkfifo(c *command) int {
	return c.each("", func(arg string) error { return c.m().add(c.p, c.path(arg), newNode(fs.ModeNamedPipe|0o644, "")) })
}

func ls(c *command) int {
	return c.each(".", func(arg string) error {
		i, err := c.m().stat(c.p, c.path(arg), true)
		if err != nil || !i.IsDir() || c.flags['d'] != "" {
			return c.result(err, "%s\n", arg)
		}
		list, err := c.m().readDir(c.p, c.path(arg))
		if len(c.args) > 1 {
			_ = c.print("%s:\n", arg)
		}
		for _, entry := range list {
			if !strings.HasPrefix(entry.Name(), ".") || len(c.flags) > 0 {
				_ = c.print("%s\n", entry.Name())
			}
		}
		return err
	})
}

func stat(c *command) int {
	return c.each("", func(arg string) error {
		i, err := c.m().stat(c.p, c.path(arg), false)
		if err != nil {
			return err
		}
		mode := uint64(i.mode.Perm())
		for bit, name := range unixBits {
			if i.mode&name != 0 {
				mode |= bit
			}
		}
		kind := "regular file"
		if i.IsDir() {
			kind = "directory"
		}
		return c.print("%s\n", strings.NewReplacer("%n", arg, "%a", strconv.FormatUint(mode, 8), "%u", strconv.Itoa(i.uid), "%g", strconv.Itoa(i.gid),
			"%s", strconv.FormatInt(i.Size(), 10), "%F", kind).Replace(c.flags['c']))
	})
}

// find knows the tests -type and -name, -not and -o.
func find(c *command) int {
	at := max(0, slices.IndexFunc(append(c.args, "-"), func(arg string) bool { return strings.HasPrefix(arg, "-") }))
	tests := c.args[at:]
	c.args = c.args[:at]
	return c.each(".", func(arg string) error { return c.find(arg, tests) })
}

func (c *command) find(name string, tests []string) error {
	i, err := c.m().stat(c.p, c.path(name), false)
	if err != nil {
		return err
	}
	match, not, any := true, false, false
	for t := 0; t < len(tests); t++ {
		var is bool
		switch {
		case tests[t] == "-not":
			not = true
			continue
		case tests[t] == "-o":
			any, match = any || match, true
			continue
		case tests[t] == "-type" && t+1 < len(tests):
			is = i.mode.Type() == map[string]fs.FileMode{"f": 0, "d": fs.ModeDir, "l": fs.ModeSymlink, "p": fs.ModeNamedPipe}[tests[t+1]]
		case tests[t] == "-name" && t+1 < len(tests):
			is, _ = path.Match(tests[t+1], base(name))
		default:
			return fmt.Errorf("unknown test %s", tests[t])
		}
		match, not, t = match && is != not, false, t+1
	}
	if any || match {
		if err := c.print("%s\n", name); err != nil {
			return err
		}
	}
	if !i.IsDir() {
		return nil
	}
	list, err := c.m().readDir(c.p, c.path(name))
	for _, entry := range list {
		err = cmp.Or(err, c.find(strings.TrimSuffix(name, "/")+"/"+entry.Name(), tests))
	}
	return err
}

func readlink(c *command) int {
	return c.each("", func(arg string) error {
		i, err := c.m().stat(c.p, c.path(arg), false)
		if err == nil && i.target == "" {
			err = syscall.EINVAL
		}
		return c.result(err, "%s\n", i.target)
	})
}

func cat(c *command) int {
	return c.files(func(_ string, r io.Reader) error { return c.copy(r) })
}

func head(c *command) int {
	n, err := strconv.ParseInt(c.flags['c'], 10, 64)
	if err != nil {
		return c.usage("want -c and a number of bytes")
	}
	return c.files(func(_ string, r io.Reader) error { return c.copy(io.LimitReader(r, n)) })
}

func wc(c *command) int {
	return c.files(func(name string, r io.Reader) error {
		data, err := io.ReadAll(r)
		n := len(data)
		if c.flags['l'] != "" {
			n = strings.Count(string(data), "\n")
		}
		if name == "-" {
			return c.result(err, "%d\n", n)
		}
		return c.result(err, "%d %s\n", n, name)
	})
}

// tr replaces single bytes.
func tr(c *command) int {
	if len(c.args) != 2 || slices.Contains(c.args, "") {
		return c.usage("want two lists of characters")
	}
	from, to := strings.ReplaceAll(c.args[0], `\0`, "\x00"), c.args[1]
	c.args = nil
	return c.files(func(_ string, r io.Reader) error {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			for i, b := range buf[:n] {
				if at := strings.IndexByte(from, b); at >= 0 {
					buf[i] = to[min(at, len(to)-1)]
				}
			}
			if _, writeErr := c.Write(buf[:n]); err != nil || writeErr != nil {
				return cmp.Or(writeErr, eofIsNone(err))
			}
		}
	})
}

// cut knows a range of bytes from the first.
func cut(c *command) int {
	last, err := strconv.Atoi(strings.TrimPrefix(c.flags['c'], "1-"))
	if err != nil {
		return c.usage("want -c and a range from 1")
	}
	return c.lines(func(line string) error { return c.print("%s\n", line[:min(last, len(line))]) })
}

func sortLines(c *command) int {
	var all []string
	code := c.lines(func(line string) error { all = append(all, line); return nil })
	slices.Sort(all)
	for _, line := range all {
		_ = c.print("%s\n", line)
	}
	return code
}

// grep looks for a text, not a pattern.
func grep(c *command) int {
	if len(c.args) == 0 {
		return c.usage("missing operand")
	}
	text, found := c.args[0], 0
	c.args = c.args[1:]
	code := c.lines(func(line string) error {
		if !strings.Contains(line, text) {
			return nil
		}
		if found++; len(c.flags) > 0 {
			return nil
		}
		return c.print("%s\n", line)
	})
	if c.flags['c'] != "" {
		_ = c.print("%d\n", found)
	}
	if code == 0 && found == 0 {
		return 1
	}
	return code * 2
}

func seq(c *command) int {
	if len(c.args) == 1 {
		c.args = []string{"1", c.args[0]}
	}
	if len(c.args) != 2 {
		return c.usage("want one or two numbers")
	}
	first, err := strconv.Atoi(c.args[0])
	last, err2 := strconv.Atoi(c.args[1])
	if err = errors.Join(err, err2); err != nil {
		return c.usage("%v", err)
	}
	for n := first; n <= last && err == nil; n++ {
		err = c.print("%d\n", n)
	}
	return 0
}

func checksum(c *command) int {
	return c.files(func(name string, r io.Reader) error {
		sum := sha256.New()
		_, err := io.Copy(sum, r)
		return c.result(err, "%x  %s\n", sum.Sum(nil), name)
	})
}
