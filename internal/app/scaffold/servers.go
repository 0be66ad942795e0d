package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/plural"
)

// Limits on what is taken of a file with MCP servers.
const (
	maxServersFile = 1 << 20
	maxServers     = 20
	maxServerArgs  = 100
	maxServerText  = 8 << 10 // bytes of a command with its arguments
)

// ownTools is an MCP server with texts as a job file has them: ${VAR} stands for a variable.
type ownTools struct {
	name   string
	server agent.MCPServer
}

// serversOf takes the MCP servers that a file describes. It runs none, and copies no value of a
// variable or a header.
func (f *finder) serversOf(name string, known presets.Preset) {
	at, _, ok := f.resolve(name)
	if !ok {
		return
	}
	list, err := readServers(at)
	switch {
	case err != nil:
		f.leave(name, err.Error())
		return
	case len(list) == 0:
		return
	case !known.MCP:
		f.leave(name, "the preset "+known.Name+" takes no MCP servers")
		return
	}
	taken := 0
	for _, key := range slices.Sorted(maps.Keys(list)) {
		shown := name + ": " + key
		if taken == maxServers {
			f.leave(shown, fmt.Sprintf("more than %d servers", maxServers))
			break
		}
		raw, _ := list[key].(map[string]any)
		s := serverReader{name: key, raw: raw}
		server, why := s.read()
		if why == "" {
			why = f.programs(server)
		}
		if why != "" {
			f.leave(shown, why)
			continue
		}
		taken++
		f.servers = append(f.servers, ownTools{key, server})
		f.Variables = append(f.Variables, s.variables...)
	}
	slices.Sort(f.Variables)
	f.Variables = slices.Compact(f.Variables)
	if taken > 0 {
		f.Found = append(f.Found, name+" ("+plural.Count(taken, "MCP server")+")")
	}
}

// readServers returns the descriptions of servers in a file, by their names.
func readServers(at string) (map[string]any, error) {
	data, err := nofollow.ReadFile(at, maxServersFile)
	if err != nil {
		return nil, errors.New("cannot be read, or is larger than 1 MiB")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var doc map[string]any
	key, format := "mcpServers", "JSON"
	switch {
	case path.Ext(at) == ".toml":
		key, format, err = "mcp_servers", "TOML", toml.Unmarshal(data, &doc)
	case path.Base(at) == "opencode.json":
		key, err = "mcp", bounded.Unmarshal(data, &doc)
	default:
		err = bounded.Unmarshal(data, &doc)
	}
	if err != nil {
		return nil, errors.New("is no valid " + format) // the error may show a part of the file
	}
	list, _ := doc[key].(map[string]any)
	return list, nil
}

// programs takes the files of the repository that a server's command names; the result says why the
// server cannot run without one of them.
func (f *finder) programs(s agent.MCPServer) (why string) {
	for i, word := range append([]string{s.Command}, s.Args...) {
		name := path.Clean(word)
		if strings.HasPrefix(word, "-") || !filepath.IsLocal(name) || name == "." || !host.IsFile(filepath.Join(f.dir, filepath.FromSlash(name))) || i == 0 && name == word && !strings.Contains(word, "/") {
			continue
		}
		if !f.file(name) {
			return "needs the file " + name + ", which cannot be used"
		}
	}
	return ""
}

// serverReader makes a server of a job file from a description in an agent's settings.
type serverReader struct {
	name      string
	raw       map[string]any
	variables []string
}

var (
	serverName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	variable     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	headerName   = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	placeholder  = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,127})(?::-[^{}]*)?\}`)
	byName       = regexp.MustCompile(`^((?:Bearer|Basic|Token|token) )?(?:` + placeholder.String() + `|\$([A-Za-z_][A-Za-z0-9_]{0,127}))$`)
	secretOption = regexp.MustCompile(`(?i)(key|token|secret|passw|pwd|auth|bearer|credential|header|cookie|session)`)
	secretText   = regexp.MustCompile(`^(sk|pk|ghp|gho|ghs|ghu|glpat|xox[a-z]|AKIA|AIza|github_pat)[-_A-Za-z0-9]{8,}|(?i)(bearer|basic) |://[^/]*@`)
	randomText   = regexp.MustCompile(`^[A-Za-z0-9+/=_-]{24,}$`)
	notEnv       = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// read returns the server, or the reason why no job can have it.
func (r *serverReader) read() (s agent.MCPServer, why string) {
	if !serverName.MatchString(r.name) {
		return s, "no job file can name such a server"
	}
	if enabled, is := r.raw["enabled"].(bool); r.raw["disabled"] == true || is && !enabled {
		return s, "is switched off"
	}
	command := texts(r.raw["command"])
	args := texts(r.raw["args"])
	if len(command) > 0 {
		args = append(command[1:], args...)
		s.Command = command[0]
	}
	address, transport := firstText(r.raw, "httpUrl", "url", "serverUrl"), firstText(r.raw, "type", "transport")
	switch {
	case s.Command != "":
		s.Env, why = r.env()
		if why == "" {
			why = r.command(&s, args)
		}
	case address != "":
		if transport == "sse" {
			s.Transport = "sse"
		}
		s.URL, why = r.address(address)
		if why == "" {
			s.Headers, why = r.headers()
		}
	default:
		why = "has neither a command nor a url"
	}
	return s, why
}

// command checks a command and its arguments, and puts variables in the place of secrets.
func (r *serverReader) command(s *agent.MCPServer, args []string) (why string) {
	size := len(s.Command)
	for _, arg := range append([]string{s.Command}, args...) {
		size += len(arg)
		switch {
		case host.Clean(arg) != arg:
			return "has control characters in its command"
		case ofOneMachine(arg):
			return "names a file of one machine, which environments do not have"
		}
	}
	switch program := path.Base(s.Command); {
	case len(args) > maxServerArgs || size > maxServerText:
		return "has a command that is too long"
	case strings.Contains(s.Command, "$"):
		return "has a variable in its command, where a job file takes none"
	case program == "docker" || program == "podman":
		return "runs " + program + ", which environments do not have"
	}
	for i, arg := range args {
		before := ""
		if i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") {
			before = args[i-1]
		}
		s.Args = append(s.Args, r.argument(arg, before, i+1))
	}
	return ""
}

// ofOneMachine reports whether an argument is a path that only one machine has.
func ofOneMachine(arg string) bool {
	_, value, _ := strings.Cut(arg, "=")
	for _, text := range []string{arg, value} {
		for _, prefix := range []string{"~", "/Users/", "/home/", "/root/", "/opt/homebrew/", "/private/", "${HOME}", "$HOME", "${workspaceFolder}"} {
			if strings.HasPrefix(text, prefix) {
				return true
			}
		}
		if len(text) > 2 && text[1] == ':' && text[2] == '\\' {
			return true
		}
	}
	return false
}

// argument returns an argument for a job file. What may be a secret becomes a variable.
func (r *serverReader) argument(arg, before string, n int) string {
	option, value, isOption := strings.Cut(arg, "=")
	isOption = isOption && strings.HasPrefix(arg, "-")
	if !isOption {
		option, value = before, arg
	}
	literal := placeholder.ReplaceAllString(value, "")
	header, _, isHeader := strings.Cut(value, ":")
	if literal == "" || !(before != "" || isOption) && !secretLike(literal) && !(isHeader && secretOption.MatchString(header)) ||
		(before != "" || isOption) && !secretOption.MatchString(option) && !secretLike(literal) {
		return r.placeholders(arg)
	}
	name := r.known(r.invented(fmt.Sprintf("arg_%d", n)))
	if isOption {
		return r.placeholders(option) + "=" + name
	}
	return name
}

// placeholders returns text whose variables are written as a job file does, without their defaults.
func (r *serverReader) placeholders(text string) string {
	var b strings.Builder
	end := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(strings.ReplaceAll(text[end:m[0]], "$", "$$"))
		b.WriteString(r.known(text[m[2]:m[3]]))
		end = m[1]
	}
	b.WriteString(strings.ReplaceAll(text[end:], "$", "$$"))
	return b.String()
}

// passed returns the value of a variable or header by name: that of the variable that the value
// names, or of one with the given name.
func (r *serverReader) passed(value any, name string) string {
	text, _ := value.(string)
	if m := byName.FindStringSubmatch(text); m != nil {
		return m[1] + r.known(m[2]+m[3])
	}
	return r.known(name)
}

// invented returns the name of a variable for a value that has none.
func (r *serverReader) invented(part string) string {
	return strings.ToUpper(notEnv.ReplaceAllString("MCP_"+r.name+"_"+part, "_"))
}

// known returns the placeholder of a variable, and notes that it is needed.
func (r *serverReader) known(name string) string {
	r.variables = append(r.variables, name)
	return "${" + name + "}"
}

func (r *serverReader) env() (env map[string]string, why string) {
	values, _ := r.raw["env"].(map[string]any)
	if more, ok := r.raw["environment"].(map[string]any); ok { // opencode
		values = more
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !variable.MatchString(key) {
			return nil, "has a variable that no job file can name"
		}
		if env == nil {
			env = map[string]string{}
		}
		env[key] = r.passed(values[key], key)
	}
	for _, key := range texts(r.raw["env_vars"]) { // Codex
		if variable.MatchString(key) {
			if env == nil {
				env = map[string]string{}
			}
			env[key] = r.known(key)
		}
	}
	return env, ""
}

func (r *serverReader) headers() (headers map[string]string, why string) {
	values, _ := r.raw["headers"].(map[string]any)
	if more, ok := r.raw["http_headers"].(map[string]any); ok { // Codex
		values = more
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !headerName.MatchString(key) {
			return nil, "has a header that no job file can name"
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[key] = r.passed(values[key], r.invented(key))
	}
	if token := firstText(r.raw, "bearer_token_env_var"); variable.MatchString(token) {
		if headers == nil {
			headers = map[string]string{}
		}
		headers["Authorization"] = "Bearer " + r.known(token)
	}
	return headers, ""
}

// address returns a URL for a key of a job file that takes no variables.
func (r *serverReader) address(text string) (address, why string) {
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "$"):
		return "", "has a variable in its url, where a job file takes none"
	case host.Clean(text) != text || len(text) > maxServerText || err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return "", "has a url that no environment can use"
	case u.Hostname() == "localhost" || u.Hostname() == "host.docker.internal" || isLoopback(u.Hostname()):
		return "", "is on this machine's localhost, which environments do not reach"
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || slices.ContainsFunc(strings.Split(u.Path, "/"), secretLike):
		return "", "has a url that may hold a secret"
	}
	return text, ""
}

// secretLike reports whether a text looks like a secret.
func secretLike(text string) bool {
	return secretText.MatchString(text) || randomText.MatchString(text) && len(strings.Trim(text, "0123456789")) > 0 && digits(text) > 2
}

func digits(text string) int {
	return len(text) - len(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text))
}

func isLoopback(name string) bool {
	ip := net.ParseIP(name)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// texts returns a text, or the texts of a list.
func texts(value any) []string {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		out := make([]string, 0, len(value))
		for _, v := range value {
			text, ok := v.(string)
			if !ok {
				text = fmt.Sprint(v)
			}
			out = append(out, text)
		}
		return out
	}
	return nil
}

// firstText returns the first of some keys whose value is a text.
func firstText(raw map[string]any, keys ...string) string {
	for _, key := range keys {
		if text, ok := raw[key].(string); ok && text != "" {
			return text
		}
	}
	return ""
}
