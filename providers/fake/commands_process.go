package fake

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/environment"
)

// processCommands start, watch and end processes. Those with builtinPrefix stand for builtins of bash
// that the interpreter does not have, or that would ask the host.
var processCommands = map[string]func(*command) int{
	"bash": bash, "sh": bash, "env": env, "printenv": printenv, "nohup": runInPlace, "setsid": runInPlace, "timeout": timeout,
	"xargs": xargs, "sleep": sleep, "ps": ps, builtinPrefix + "kill": kill,
}

// bash runs a script: -c TEXT, a file, or the standard input.
func bash(c *command) int {
	var options []string
	text, name, inline := "", "bash", false
	for len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		arg := c.args[0]
		c.args = c.args[1:]
		if arg == "--" {
			break
		}
		if strings.HasPrefix(arg, "--") {
			continue // --login, --norc and the like
		}
		for _, letter := range arg[1:] {
			switch letter {
			case 'c':
				inline = true
			case 'e', 'u', 'x', 'f':
				options = append(options, "-"+string(letter))
			case 'o':
				if len(c.args) > 0 {
					options = append(options, "-o", c.args[0])
					c.args = c.args[1:]
				}
			case 'l', 'i', 's':
			default:
				return c.usage("unknown option -%c", letter)
			}
		}
	}
	switch {
	case inline && len(c.args) == 0:
		return c.usage("-c needs a script")
	case inline:
		text, c.args = c.args[0], c.args[1:]
		if text == environment.Idle()[2] {
			c.m().handOver()
			text = idle
		}
		if len(c.args) > 0 {
			name, c.args = c.args[0], c.args[1:]
		}
	case len(c.args) > 0:
		name, c.args = c.args[0], c.args[1:]
		data, err := c.m().readFile(c.p, c.path(name))
		if err != nil {
			c.fail(name, err)
			return 127
		}
		text = string(data)
	default:
		data, err := io.ReadAll(c.input())
		if err != nil {
			return c.fail("standard input", err)
		}
		text, c.stdin = string(data), nil
	}
	return c.bash(options, text, name, c.args)
}

// runInPlace runs the rest of the arguments as the same process: sessions and hang-ups mean nothing here.
func runInPlace(c *command) int {
	for len(c.args) > 0 && strings.HasPrefix(c.args[0], "-") {
		c.args = c.args[1:]
	}
	if len(c.args) == 0 {
		return c.usage("missing operand")
	}
	c.name, c.args = c.args[0], c.args[1:]
	return c.execute()
}

func env(c *command) int {
	vars := maps.Clone(c.env)
	for len(c.args) > 0 {
		arg := c.args[0]
		name, value, assigns := strings.Cut(arg, "=")
		switch {
		case arg == "-i" || arg == "-":
			clear(vars)
		case arg == "-u" && len(c.args) > 1:
			c.args = c.args[1:]
			delete(vars, c.args[0])
		case assigns:
			vars[name] = value
		case strings.HasPrefix(arg, "-"):
			return c.usage("unknown option %s", arg)
		default:
			c.env = vars
			return runInPlace(c)
		}
		c.args = c.args[1:]
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		c.print("%s=%s\n", name, vars[name])
	}
	return 0
}

func printenv(c *command) int {
	if len(c.args) == 0 {
		return env(c)
	}
	value, ok := c.env[c.args[0]]
	if !ok {
		return 1
	}
	c.print("%s\n", value)
	return 0
}

// parseDuration reads what sleep and timeout take: 1, 0.5, 2m, infinity.
func parseDuration(s string) (time.Duration, error) {
	if s == "infinity" || s == "inf" {
		return 1 << 62, nil
	}
	unit := time.Second
	if n := len(s); n > 0 {
		if u, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[s[n-1]]; ok {
			unit, s = u, s[:n-1]
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("invalid time interval %q", s)
	}
	return time.Duration(min(n*float64(unit), 1<<62)), nil
}

func sleep(c *command) int {
	var sum time.Duration
	for _, arg := range c.args {
		d, err := parseDuration(arg)
		if err != nil {
			return c.usage("%v", err)
		}
		sum += d
	}
	timer := time.NewTimer(sum)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.p.ctx.Done():
	}
	return 0
}

func timeout(c *command) int {
	flags, err := c.leadingOptions("s:k:", "signal=s", "kill-after=k", "foreground=f")
	if err != nil || len(c.args) < 2 {
		return c.usage("want a duration and a command (%v)", err)
	}
	limit, err := parseDuration(c.args[0])
	sig, err2 := parseSignal(flags['s'], syscall.SIGTERM)
	if err != nil || err2 != nil {
		return c.usage("%v %v", err, err2)
	}
	child, err := c.p.run.start(c.p, strings.Join(c.args[1:], " "))
	if err != nil {
		return c.fail("fork", err)
	}
	inner := *c
	inner.p, inner.name, inner.args = child, c.args[1], c.args[2:]
	go func() { child.exit(inner.execute()) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-child.done:
		_, code := child.dead()
		return code
	case <-timer.C:
	case <-c.p.ctx.Done():
		return 1
	}
	_ = c.m().signal(c.p, child.pid, sig)
	<-child.done
	return 124
}

// leadingOptions is options for commands whose operands are another command.
func (c *command) leadingOptions(spec string, long ...string) (map[byte]string, error) {
	n := 0
	for n < len(c.args) && strings.HasPrefix(c.args[n], "-") && c.args[n] != "--" {
		at := strings.IndexByte(spec, c.args[n][1%len(c.args[n])])
		if len(c.args[n]) == 2 && at >= 0 && strings.HasPrefix(spec[at+1:], ":") {
			n++
		}
		n++
	}
	n = min(n, len(c.args))
	operands := c.args[n:]
	c.args = c.args[:n]
	flags, err := c.options(spec, long...)
	if len(operands) > 0 && operands[0] == "--" {
		operands = operands[1:]
	}
	c.args = operands
	return flags, err
}

// xargs runs a command with the words, or with -0 or -I the lines, of its input as arguments.
func xargs(c *command) int {
	flags, err := c.leadingOptions("0rn:I:d:")
	if err != nil {
		return c.usage("%v", err)
	}
	data, err := io.ReadAll(c.input())
	if err != nil {
		return c.fail("standard input", err)
	}
	split := bufio.ScanWords
	if flags['I'] != "" {
		split = bufio.ScanLines
	}
	var items []string
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Split(split)
	for flags['0'] == "" && scanner.Scan() {
		items = append(items, scanner.Text())
	}
	if flags['0'] != "" {
		items = strings.FieldsFunc(string(data), func(r rune) bool { return r == 0 })
	}
	line := c.args
	if len(line) == 0 {
		line = []string{"echo"}
	}
	most := max(1, len(items))
	if n, err := strconv.Atoi(flags['n']); err == nil && n > 0 {
		most = n
	}
	if flags['I'] != "" {
		most = 1
	}
	code := 0
	for some := range slices.Chunk(items, most) {
		args := slices.Concat(line[1:], some)
		if mark := flags['I']; mark != "" {
			args = nil
			for _, arg := range line[1:] {
				args = append(args, strings.ReplaceAll(arg, mark, some[0]))
			}
		}
		inner := *c
		inner.name, inner.args, inner.stdin = line[0], args, nil
		if inner.name == "echo" {
			c.print("%s\n", strings.Join(args, " "))
		} else if inner.execute() != 0 {
			code = 123
		}
	}
	return code
}

var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "PIPE": syscall.SIGPIPE, "TERM": syscall.SIGTERM}

func parseSignal(name string, otherwise syscall.Signal) (syscall.Signal, error) {
	if name == "" {
		return otherwise, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < 64 {
		return syscall.Signal(n), nil
	}
	if sig, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]; ok {
		return sig, nil
	}
	return 0, fmt.Errorf("unknown signal %q", name)
}

func kill(c *command) int {
	name := ""
	if len(c.args) > 1 && c.args[0] == "-s" {
		name, c.args = c.args[1], c.args[2:]
	} else if len(c.args) > 0 && strings.HasPrefix(c.args[0], "-") && c.args[0] != "--" {
		name, c.args = c.args[0][1:], c.args[1:]
	}
	sig, err := parseSignal(name, syscall.SIGTERM)
	if err != nil {
		return c.usage("%v", err)
	}
	c.name = "bash: kill"
	return c.one(func(arg string) error {
		pid, err := strconv.Atoi(arg)
		if err != nil || pid <= 0 {
			return fmt.Errorf("the fake environment kills single processes only")
		}
		return c.m().signal(c.p, pid, sig)
	})
}

func ps(c *command) int {
	m := c.m()
	m.mu.Lock()
	var live []*process
	for _, p := range m.procs {
		if !p.ended {
			live = append(live, p)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(live, func(a, b *process) int { return a.pid - b.pid })
	c.print("UID PID PPID CMD\n")
	for _, p := range live {
		c.print("%s %d %d %s\n", m.userName(p.uid), p.pid, p.ppid, p.args)
	}
	return 0
}
