package scaffold

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

// with and without return the names of the agents with a setup and without it.
func (s Setup) with() string    { return s.Preset + "-with" }
func (s Setup) without() string { return s.Preset + "-without" }

// pair returns the entries of a preset with a setup and without it.
func (s Setup) pair(h *host.Host, dir, workDir string) (string, error) {
	var b strings.Builder
	b.WriteString("  # This repository has for " + s.Preset + ": " + strings.Join(s.Found, ", ") + ".\n")
	for _, left := range s.Left {
		b.WriteString("  # Left out: " + left.Name + " (" + left.Why + ").\n")
	}
	b.WriteString("  # The first of these two agents has it, the second one has not; compare, below, shows the difference.\n")
	entry, err := s.take(h, dir, workDir, presetEntry(s.with(), s.Preset))
	if err != nil {
		return "", err
	}
	key := presetKey(s.Preset)
	return b.String() + entry + key + presetEntry(s.without(), s.Preset) + key, nil
}

// comparing returns a job file in which a preset's agent is replaced by a pair with and without a
// setup.
func comparing(h *host.Host, job []byte, req InitRequest, s Setup) ([]byte, error) {
	workDir := defaultWorkDir
	if req.Tasks != "" {
		workDir = workDirOf(h.Path(req.Tasks))
	}
	pair, err := s.pair(h, req.Dir, workDir)
	if err != nil {
		return nil, err
	}
	out := string(job)
	for _, change := range [][2]string{
		{presetAgent(s.Preset), pair},
		{"\n# What must hold", "\n# Reports compare these two. Add tasks, and raise n_attempts: chance explains any difference between a few trials.\n" +
			"compare: [[" + s.with() + ", " + s.without() + "]]\n\n# What must hold"},
		{"    - agent: " + s.Preset + "\n", "    - agent: " + s.with() + "\n"},
	} {
		if strings.Count(out, change[0]) != 1 {
			return nil, fmt.Errorf("the example job has no part %q", change[0])
		}
		out = strings.Replace(out, change[0], change[1], 1)
	}
	return []byte(out), nil
}

// take adds the keys of the setup to a preset's entry.
func (s Setup) take(h *host.Host, dir, workDir, entry string) (string, error) {
	var b strings.Builder
	b.WriteString(entry)
	if len(s.files) > 0 {
		b.WriteString("    files: # where the agent looks for them: in " + workDir + ", the working directory of the tasks\n")
	}
	for _, f := range s.files {
		rel, err := fromJob(h, dir, f.source)
		if err != nil {
			return "", err
		}
		if !path.IsAbs(rel) && !strings.HasPrefix(rel, ".") {
			rel = "./" + rel
		}
		fmt.Fprintf(&b, "      - {source: %s, target: %s}\n", text(rel), text(path.Join(workDir, f.name)))
	}
	if s.skills != "" {
		rel, err := fromJob(h, dir, s.skills)
		if err != nil {
			return "", err
		}
		b.WriteString("    skills: " + text(rel) + "\n")
	}
	if len(s.servers) > 0 {
		b.WriteString("    mcp_servers: # they start in the environment; ${NAME} is a variable of the machine that rollout runs on, whose value is not written down\n")
	}
	for _, tools := range s.servers {
		b.WriteString("      " + text(tools.name) + ": " + serverText(tools.server) + "\n")
	}
	return b.String(), nil
}

var plainText = regexp.MustCompile(`^[./]*[A-Za-z][A-Za-z0-9_./-]*$`)

// text returns a text for a flow mapping of YAML: plain if that is the same text.
func text(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan":
		return strconv.Quote(s)
	}
	if plainText.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// serverText returns an MCP server as a flow mapping.
func serverText(s agent.MCPServer) string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+": "+value) }
	if s.Command != "" {
		add("command", text(s.Command))
	}
	if len(s.Args) > 0 {
		args := make([]string, len(s.Args))
		for i, arg := range s.Args {
			args[i] = text(arg)
		}
		add("args", "["+strings.Join(args, ", ")+"]")
	}
	if s.URL != "" {
		add("url", text(s.URL))
	}
	if s.Transport != "" {
		add("transport", s.Transport)
	}
	for _, m := range []struct {
		key    string
		values map[string]string
	}{{"env", s.Env}, {"headers", s.Headers}} {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(m.values)) {
			pairs = append(pairs, text(name)+": "+text(m.values[name]))
		}
		if len(pairs) > 0 {
			add(m.key, "{"+strings.Join(pairs, ", ")+"}")
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// presetEntry returns an agent with a preset, without its variables.
func presetEntry(name, preset string) string {
	p, _ := presets.Get(preset)
	return "  - name: " + name + "\n    preset: " + preset + " # " + p.About + "\n"
}

// defaultWorkDir is where the example, mined tasks and most datasets work.
const defaultWorkDir = "/app"

// Limits on the search for the tasks' working directory.
const (
	maxTasksRead = 200
	maxFileRead  = 64 << 10
)

var (
	dockerWorkDir = regexp.MustCompile(`(?im)^[ \t]*WORKDIR[ \t]+"?(/[A-Za-z0-9_./-]*)"?[ \t\r]*$`)
	tomlWorkDir   = regexp.MustCompile(`(?m)^[ \t]*workdir[ \t]*=[ \t]*"(/[A-Za-z0-9_./-]*)"`)
)

// workDirOf returns the working directory that the tasks of a directory have in common, or that of
// the first one, as far as their files tell it.
func workDirOf(dir string) string {
	entries := []string{dir}
	if d, err := nofollow.OpenDir(dir); err == nil {
		defer d.Close()
		names, _ := d.Readdirnames(maxTasksRead)
		slices.Sort(names)
		for _, name := range names {
			entries = append(entries, filepath.Join(dir, name))
		}
	}
	for _, task := range entries {
		if at := lastMatch(tomlWorkDir, filepath.Join(task, "task.toml")); usableWorkDir(at) {
			return at
		}
		if at := lastMatch(dockerWorkDir, filepath.Join(task, "environment", "Dockerfile")); usableWorkDir(at) {
			return at
		}
	}
	return defaultWorkDir
}

// lastMatch returns what the last match in a file has in parentheses.
func lastMatch(pattern *regexp.Regexp, file string) string {
	if _, err := os.Lstat(file); err != nil {
		return ""
	}
	data, err := nofollow.ReadFile(file, maxFileRead)
	if err != nil {
		return ""
	}
	all := pattern.FindAllSubmatch(data, -1)
	if len(all) == 0 {
		return ""
	}
	return path.Clean(string(all[len(all)-1][1]))
}

// usableWorkDir reports whether files can be put into a directory of an environment.
func usableWorkDir(dir string) bool {
	for _, taken := range append(environment.SpecialDirs(), "/proc", "/sys", "/dev") {
		if dir == taken || strings.HasPrefix(dir, taken+"/") {
			return false
		}
	}
	return path.IsAbs(dir)
}
