package fake

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a command: the letters of its flags, and its implementation.
type entry struct {
	flags string
	run   func(*command) int
}

// commands lists the commands in addition to bash's builtins. Some run others, so init sets it.
var commands map[string]entry

func init() {
	commands = map[string]entry{
		"bash": {anyFlags, bash}, "sh": {anyFlags, bash}, "setsid": {anyFlags, detached}, "nohup": {anyFlags, detached}, "sleep": {"", sleep}, "date": {"", date},
		"cat": {"", cat}, "wc": {"lc", wc}, "grep": {"q", grep},
		"ls": {"Aad", ls}, "mkdir": {"p", mkdir}, "touch": {"", touch}, "cp": {"", cp}, "mv": {"f", mv}, "ln": {"sf", ln}, "rm": {"rf", rm}, "chmod": {"", chmod},
	}
}

// detached runs its arguments: sessions and hang-ups have no meaning here.
func detached(c *command) int {
	if len(c.args) == 0 {
		return c.usage("missing operand")
	}
	c.name, c.args = c.args[0], c.args[1:]
	return c.execute()
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
		case <-c.ctx.Done():
		}
		return nil
	})
}

// date supports one format.
func date(c *command) int {
	if !slices.Equal(c.args, []string{"+%s%N"}) {
		return c.usage("want +%%s%%N")
	}
	_ = c.print("%d\n", time.Now().UnixNano())
	return 0
}

func cat(c *command) int {
	return c.each("-", func(arg string) error {
		r, err := c.open(arg)
		if err == nil {
			_, err = io.Copy(c, r)
		}
		return err
	})
}

func wc(c *command) int {
	return c.each("-", func(arg string) error {
		data, err := c.read(arg)
		if err != nil {
			return err
		}
		n := len(data)
		if c.has('l') {
			n = strings.Count(string(data), "\n")
		}
		return c.print("%s\n", strings.TrimSuffix(fmt.Sprintf("%d %s", n, arg), " -"))
	})
}

// grep searches for a fixed text, not a pattern.
func grep(c *command) int {
	if len(c.args) == 0 {
		return c.usage("missing operand")
	}
	text, found := c.args[0], false
	c.args = c.args[1:]
	code := c.each("-", func(arg string) error {
		data, err := c.read(arg)
		for line := range strings.Lines(string(data)) {
			if !strings.Contains(line, text) {
				continue
			}
			if found = true; !c.has('q') {
				_ = c.print("%s\n", strings.TrimSuffix(line, "\n"))
			}
		}
		return err
	})
	if code == 0 && !found {
		return 1
	}
	return code * 2
}

func ls(c *command) int {
	return c.each(".", func(arg string) error {
		i, err := c.x.stat(c.path(arg), true)
		if err != nil {
			return err
		}
		if !i.IsDir() || c.has('d') {
			return c.print("%s\n", arg)
		}
		list, err := c.x.readDir(c.path(arg))
		for _, entry := range list {
			if !strings.HasPrefix(entry.Name(), ".") || len(c.flags) > 0 {
				_ = c.print("%s\n", entry.Name())
			}
		}
		return err
	})
}

func mkdir(c *command) int {
	return c.each("", func(arg string) error {
		if c.has('p') {
			return c.x.mkdirAll(c.path(arg))
		}
		return c.x.add(c.path(arg), newDir(0o755))
	})
}

func touch(c *command) int {
	return c.each("", func(arg string) error {
		f, err := c.x.open(c.path(arg), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err == nil {
			_, err = f.Write(nil)
		}
		return err
	})
}

// toLast calls do with each operand but the last, and its destination: the last operand, or a path
// below it if that is a directory.
func (c *command) toLast(do func(from, to string) error) int {
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	last := c.path(c.args[len(c.args)-1])
	c.args = c.args[:len(c.args)-1]
	i, err := c.x.stat(last, true)
	return c.each("", func(arg string) error {
		if names := elements(arg); err == nil && i.IsDir() && len(names) > 0 {
			return do(arg, last+"/"+names[len(names)-1])
		}
		return do(arg, last)
	})
}

func cp(c *command) int {
	return c.toLast(func(from, to string) error {
		i, err := c.x.stat(c.path(from), true)
		if err != nil {
			return err
		}
		data, err := c.read(from)
		if err != nil {
			return err
		}
		f, err := c.x.open(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, i.Mode().Perm())
		if err == nil {
			_, err = f.Write(data)
		}
		return err
	})
}

func mv(c *command) int {
	return c.toLast(func(from, to string) error { return c.x.link(c.path(from), to, true) })
}

func ln(c *command) int {
	return c.toLast(func(target, to string) error {
		if c.has('f') {
			_ = c.x.remove(to, false)
		}
		if !c.has('s') {
			return c.x.link(c.path(target), to, false)
		}
		return c.x.add(to, &node{mode: 0o777, target: target, modified: time.Now()})
	})
}

func rm(c *command) int {
	if len(c.args) == 0 && c.has('f') {
		return 0
	}
	return c.each("", func(arg string) error {
		err := c.x.remove(c.path(arg), c.has('r'))
		if c.has('f') && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
}

// chmod supports octal modes.
func chmod(c *command) int {
	if len(c.args) < 2 {
		return c.usage("missing operand")
	}
	mode, err := strconv.ParseUint(c.args[0], 8, 12)
	c.args = slices.Delete(c.args, 0, 1)
	return c.each("", func(arg string) error {
		if err != nil {
			return errors.New("invalid mode")
		}
		return c.x.find(c.path(arg), true, func(at place) error { at.node.mode = int64(mode); return nil })
	})
}
