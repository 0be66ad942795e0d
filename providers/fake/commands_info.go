package fake

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// infoCommands tell who and where one is, and when.
var infoCommands = map[string]func(*command) int{
	"id": id, "whoami": whoami, "date": date, "hostname": hostname, "uname": uname, "nproc": nproc, "sync": nothing,
	"which": which, builtinPrefix + "which": which, builtinPrefix + "type": typeBuiltin,
	builtinPrefix + "umask": nothing, builtinPrefix + "ulimit": nothing,
}

func nothing(*command) int { return 0 }

func id(c *command) int {
	flags, err := c.options("ugn")
	if err != nil {
		return c.usage("%v", err)
	}
	m, p := c.m(), c.p
	switch {
	case flags['u'] != "" && flags['n'] != "":
		c.print("%s\n", m.userName(p.uid))
	case flags['g'] != "" && flags['n'] != "":
		c.print("%s\n", m.groupName(p.gid))
	case flags['u'] != "":
		c.print("%d\n", p.uid)
	case flags['g'] != "":
		c.print("%d\n", p.gid)
	default:
		c.print("uid=%d(%s) gid=%d(%s)\n", p.uid, m.userName(p.uid), p.gid, m.groupName(p.gid))
	}
	return 0
}

func whoami(c *command) int {
	c.print("%s\n", c.m().userName(c.p.uid))
	return 0
}

// date knows the commonest fields of its format.
func date(c *command) int {
	now, format := time.Now(), "%a %b %e %H:%M:%S %Z %Y"
	for _, arg := range c.args {
		switch {
		case arg == "-u":
		case arg == "-Iseconds":
			format = "%Y-%m-%dT%H:%M:%S+00:00"
		case strings.HasPrefix(arg, "+"):
			format = arg[1:]
		default:
			return c.usage("unknown argument %s", arg)
		}
	}
	now = now.UTC()
	nano := fmt.Sprintf("%09d", now.Nanosecond())
	c.print("%s\n", strings.NewReplacer(
		"%s", strconv.FormatInt(now.Unix(), 10), "%N", nano, "%3N", nano[:3], "%Y", now.Format("2006"), "%m", now.Format("01"),
		"%d", now.Format("02"), "%e", now.Format("_2"), "%H", now.Format("15"), "%M", now.Format("04"), "%S", now.Format("05"),
		"%F", now.Format("2006-01-02"), "%T", now.Format("15:04:05"), "%a", now.Format("Mon"), "%b", now.Format("Jan"), "%Z", "UTC", "%%", "%",
	).Replace(format))
	return 0
}

func hostname(c *command) int {
	c.print("fake\n")
	return 0
}

func uname(c *command) int {
	c.print("Linux\n")
	return 0
}

func nproc(c *command) int {
	c.print("1\n")
	return 0
}

// where tells where a command is: itself if it is a builtin, else a path, or "".
func (c *command) where(name string) string {
	if interp.IsBuiltin(name) {
		return name
	}
	if path := c.m().lookPath(c.p, c.env["PATH"], name); path != "" {
		return path
	}
	if commands[name] != nil && !strings.HasPrefix(name, builtinPrefix) {
		return "/usr/bin/" + name
	}
	return ""
}

func which(c *command) int {
	code := 0
	for _, name := range c.args {
		if at := c.where(name); at != "" {
			c.print("%s\n", at)
		} else {
			code = 1
		}
	}
	return code
}

func typeBuiltin(c *command) int {
	flags, err := c.options("tpP")
	if err != nil {
		return c.usage("%v", err)
	}
	code := 0
	for _, name := range c.args {
		at := c.where(name)
		switch {
		case at == "":
			code = 1
			fmt.Fprintf(c.stderr, "bash: type: %s: not found\n", name)
		case len(flags) == 0:
			c.print("%s is %s\n", name, at)
		case flags['t'] == "":
			c.print("%s\n", at)
		case at == name:
			c.print("builtin\n")
		default:
			c.print("file\n")
		}
	}
	return code
}
