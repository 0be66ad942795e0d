package appletest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// usageCode is the exit code of the command's parser (EX_USAGE).
// Source: https://github.com/apple/swift-argument-parser.
const usageCode = 64

// failure is what the program prints on its standard error, and its exit code.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

// failed returns an error of the system service, as the program prints it.
func failed(format string, args ...any) error { return &failure{1, fmt.Sprintf(format, args...)} }

// spec is a command's syntax. Options take a value, flags none. Each has its names, separated by
// spaces, of which the first one is the key of the result.
// Source: https://github.com/apple/container/blob/1.2.2/docs/command-reference.md and
// Sources/Services/ContainerAPIService/Client/Flags.swift there.
type spec struct {
	options, flags string
	// rest: all from the second argument on belongs to the command that is run.
	rest bool
}

const (
	processOptions = "--env|-e --env-file --gid --user|-u --uid --workdir|-w|--cwd --ulimit "
	processFlags   = "--interactive|-i --tty|-t --debug "
	dnsOptions     = "--dns --dns-domain --dns-option --dns-search "
)

var specs = map[string]spec{
	"run": {
		options: processOptions + dnsOptions + "--cpus|-c --memory|-m --arch|-a --cap-add --cap-drop --cidfile --entrypoint --init-image --kernel|-k --kernel-arg " +
			"--label|-l --masked-path --mount --name --network --os --publish|-p --platform --publish-socket --read-only-path --runtime --shm-size --tmpfs --volume|-v " +
			"--scheme --progress --max-concurrent-downloads",
		flags: processFlags + "--detach|-d --init --no-dns --read-only --rm|--remove --rosetta --ssh --virtualization",
		rest:  true,
	},
	"exec":          {options: processOptions, flags: processFlags + "--detach|-d", rest: true},
	"delete":        {flags: "--all|-a --force|-f --debug"},
	"stop":          {options: "--signal|-s --time|-t", flags: "--all|-a --debug"},
	"list":          {options: "--format", flags: "--all|-a --quiet|-q --debug"},
	"image pull":    {options: "--scheme --progress --max-concurrent-downloads --arch|-a --os --platform", flags: "--debug"},
	"image inspect": {flags: "--debug"},
	"image save":    {options: "--arch|-a --os --platform --output|-o", flags: "--debug"},
	"build": {
		options: dnsOptions + "--arch|-a --build-arg --cpus|-c --file|-f --label|-l --memory|-m --output|-o --os --platform --progress --secret --ssh --tag|-t --target --vsock-port",
		flags:   "--no-cache --pull --quiet|-q --debug",
	},
	"system status": {options: "--prefix|-p --format", flags: "--debug"},
}

// parsed is a command with its options by their first names.
type parsed struct {
	name   string
	values map[string][]string
	args   []string
}

// last returns the value of an option that was given last; "" if it was not given.
func (p parsed) last(name string) string {
	if all := p.values[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func (p parsed) has(name string) bool { return p.values[name] != nil }

// usage returns an error of the parser.
func usage(command, format string, args ...any) error {
	return &failure{usageCode, fmt.Sprintf(format, args...) + fmt.Sprintf("\nUsage: container %s\n  See 'container %s --help' for more information.", command, command)}
}

// parse reads the arguments of the program as the real one does: unknown options are errors.
func parse(args []string) (parsed, error) {
	p := parsed{values: map[string][]string{}}
	for n := min(2, len(args)); n > 0; n-- {
		if name := strings.Join(args[:n], " "); specs[name].options+specs[name].flags != "" {
			p.name, args = name, args[n:]
			break
		}
	}
	if p.name == "" {
		return p, &failure{usageCode, fmt.Sprintf("Plugin 'container-%s' not found.", strings.Join(args, " "))}
	}
	s := specs[p.name]
	for len(args) > 0 {
		arg := args[0]
		if args = args[1:]; !strings.HasPrefix(arg, "-") || arg == "-" {
			p.args = append(p.args, arg)
			if s.rest {
				p.args = append(p.args, args...)
				return p, p.check()
			}
			continue
		}
		name, value, given := strings.Cut(arg, "=")
		if key := named(s.flags, name); key != "" && !given {
			p.values[key] = []string{""}
			continue
		}
		key := named(s.options, name)
		if key == "" {
			return p, usage(p.name, "Unknown option '%s'", name)
		}
		if !given {
			if len(args) == 0 {
				return p, usage(p.name, "Missing value for '%s <%s>'", name, strings.TrimLeft(key, "-"))
			}
			value, args = args[0], args[1:]
		}
		p.values[key] = append(p.values[key], value)
	}
	return p, p.check()
}

// named returns the first name of the option that a name means; "" if there is none.
func named(options, name string) string {
	for _, option := range strings.Fields(options) {
		if names := strings.Split(option, "|"); slices.Contains(names, name) {
			return names[0]
		}
	}
	return ""
}

// check refuses values of the wrong type.
func (p parsed) check() error {
	for _, name := range []string{"--cpus", "--uid", "--gid", "--time"} {
		for _, value := range p.values[name] {
			if n, err := strconv.Atoi(value); err != nil || n < 0 {
				return usage(p.name, "The value '%s' is invalid for '%s <%s>'", value, name, name[2:])
			}
		}
	}
	known := map[string][]string{"--format": {"json", "table", "yaml", "toml"}, "--progress": {"auto", "none", "ansi", "plain", "color"}}
	if p.name == "build" {
		known["--progress"] = []string{"auto", "plain", "tty"}
	}
	for name, values := range known {
		for _, value := range p.values[name] {
			if !slices.Contains(values, value) {
				return usage(p.name, "The value '%s' is invalid for '%s <%s>'. Please provide one of %s.", value, name, name[2:], strings.Join(values, ", "))
			}
		}
	}
	return nil
}
