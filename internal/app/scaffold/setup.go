package scaffold

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
)

// places lists where a preset's agent has its own files in a repository. All but shared ones show
// that the repository uses that agent.
type places struct {
	preset   string
	files    []string // instructions, sub-agents, commands
	skills   []string // directories; the first one with skills is taken
	servers  []string // files with MCP servers
	settings []string // files that are not taken: they have permissions, hooks and keys for people's machines
}

// setups lists the agents, in the order in which Init chooses one. Sources: the manuals of the
// agents, as of 2026-11.
var setups = []places{
	{
		preset:   "claude-code",
		files:    []string{"CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules", ".claude/agents", ".claude/commands"},
		skills:   []string{".claude/skills"},
		servers:  []string{".mcp.json"},
		settings: []string{".claude/settings.json"},
	},
	{preset: "codex", skills: []string{".codex/skills"}, servers: []string{".codex/config.toml"}},
	{
		preset: "gemini-cli", files: []string{"GEMINI.md", ".gemini/agents", ".gemini/commands"},
		skills: []string{".gemini/skills"}, servers: []string{".gemini/settings.json"},
	},
	{preset: "qwen-code", files: []string{"QWEN.md", ".qwen/agents", ".qwen/commands"}, skills: []string{".qwen/skills"}, servers: []string{".qwen/settings.json"}},
	{
		preset: "opencode", files: []string{".opencode/agent", ".opencode/agents", ".opencode/command", ".opencode/commands"},
		skills: []string{".opencode/skills", ".opencode/skill"}, servers: []string{"opencode.json"},
	},
	{
		preset: "copilot-cli", files: []string{".github/copilot-instructions.md", ".github/instructions", ".github/agents"},
		skills: []string{".github/skills"},
	},
	{preset: "cursor-agent", files: []string{".cursorrules", ".cursor/rules", ".cursor/commands"}, skills: []string{".cursor/skills"}, servers: []string{".cursor/mcp.json"}},
	{preset: "droid", files: []string{".factory/droids", ".factory/commands"}, skills: []string{".factory/skills"}, servers: []string{".factory/mcp.json"}},
	{preset: "junie", files: []string{".junie/guidelines.md"}, servers: []string{".junie/mcp/mcp.json"}},
	{preset: "kilocode", files: []string{".kilocode/rules"}, servers: []string{".kilocode/mcp.json"}},
	{preset: "crush", files: []string{"CRUSH.md"}},
	{preset: "cline", files: []string{".clinerules"}},
	{preset: "goose", files: []string{".goosehints"}},
}

// shared lists what agents share. What a repository has of it alone makes Init choose an agent,
// too.
var shared = []struct {
	path, preset string
	skills       bool
}{
	{"AGENTS.md", "codex", false},
	{".agents/skills", "codex", true},
	{"skills", "claude-code", true},
}

// Setup describes the files that a repository has for an agent, for a job with and without them.
// The zero Setup has none.
type Setup struct {
	Preset    string
	Found     []string   // for people: the paths that are used, with numbers
	Left      []LeftOut  // what is not used
	Others    []string   // further presets for which there are files
	Variables []string   // that MCP servers need; sorted
	files     []ownFile  // for the working directory of the tasks
	skills    string     // the absolute path of the directory; "": none
	servers   []ownTools // MCP servers
}

// LeftOut is a file or an MCP server that Init does not use. Both texts are safe to print.
type LeftOut struct{ Name, Why string }

// ownFile is a file or directory of a Setup.
type ownFile struct {
	name   string // in the repository and in the working directory of a task, with forward slashes
	source string // absolute, without links
}

// Any reports whether there is something to compare.
func (s Setup) Any() bool { return len(s.files) > 0 || s.skills != "" || len(s.servers) > 0 }

// FindSetup looks for the files of an agent in a directory, which need not exist yet, and in those
// above it in its repository, and takes the first directory that has some. preset is the agent; "":
// the first one that has files. If none of them can be used, the result has only Left.
func FindSetup(ctx context.Context, h *host.Host, dir, preset string) (Setup, error) {
	var unused Setup
	above, top := directoriesOf(h, dir)
	for _, at := range above {
		s := finder{ctx: ctx, dir: at, top: top}
		found := s.find(preset)
		if ctx.Err() != nil {
			return Setup{}, host.ErrCancelled
		}
		if found.Any() {
			return found, nil
		}
		unused.Left = append(unused.Left, found.Left...)
	}
	return unused, nil
}

// directoriesOf returns the existing directories from dir up to the top of its repository. Without
// a repository it is dir, and the current directory if dir is in it.
func directoriesOf(h *host.Host, dir string) (dirs []string, root string) {
	abs, err := filepath.Abs(h.Path(dir))
	if err != nil {
		return nil, ""
	}
	abs = host.Resolved(abs)
	last, _ := top(h, dir)
	if last == "" {
		last = abs
		if here, err := filepath.Abs(h.Path(".")); err == nil {
			if rel, err := filepath.Rel(host.Resolved(here), abs); err == nil && filepath.IsLocal(rel) {
				last = host.Resolved(here)
			}
		}
	}
	for at := abs; ; at = filepath.Dir(at) {
		if host.IsDir(at) {
			dirs = append(dirs, at)
		}
		if at == last || filepath.Dir(at) == at {
			return dirs, last
		}
	}
}

// finder looks for the files of agents in a directory.
type finder struct {
	ctx context.Context //nolint:containedctx // of one call of FindSetup
	dir string
	top string // nothing outside of it is used
	Setup
}

func (f *finder) find(preset string) Setup {
	var has []string
	for _, p := range setups {
		for _, name := range slices.Concat(p.files, p.skills, p.servers, p.settings) {
			if _, err := os.Lstat(filepath.Join(f.dir, name)); err == nil {
				has = append(has, p.preset)
				break
			}
		}
	}
	for _, s := range shared {
		if _, err := os.Lstat(filepath.Join(f.dir, s.path)); err == nil && len(has) == 0 && (!s.skills || countSkills(filepath.Join(f.dir, s.path)) > 0) {
			has = append(has, s.preset)
		}
	}
	if preset != "" {
		return f.take(preset)
	}
	var unused Setup
	for i, name := range has {
		g := finder{ctx: f.ctx, dir: f.dir, top: f.top}
		if found := g.take(name); found.Any() {
			found.Others = has[i+1:]
			return found
		} else if i == 0 {
			unused.Left = found.Left
		}
	}
	return unused
}

// take collects the files of one agent.
func (f *finder) take(preset string) Setup {
	known, ok := presets.Get(preset)
	if !ok || len(known.Keys) == 0 {
		return Setup{}
	}
	f.Preset = preset
	own := places{preset: preset}
	if i := slices.IndexFunc(setups, func(p places) bool { return p.preset == preset }); i >= 0 {
		own = setups[i]
	}
	for _, name := range own.files {
		f.file(name)
	}
	f.file(shared[0].path)
	for _, name := range own.skills {
		f.skillsIn(name, known)
	}
	for _, s := range shared {
		if s.skills {
			f.skillsIn(s.path, known)
		}
	}
	servers := own.servers
	if len(servers) == 0 && known.MCP {
		servers = []string{".mcp.json"}
	}
	for _, name := range servers {
		f.serversOf(name, known)
	}
	for _, name := range own.settings {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); err == nil {
			f.leave(name, "settings are for people's machines: permissions, hooks and variables")
		}
	}
	return f.Setup
}

func (f *finder) leave(name, why string) {
	f.Left = append(f.Left, LeftOut{host.Clean(name), untrusted.Cut(host.Clean(why), 200)})
}

// resolve returns the path of a file or directory without links, and whether it is a directory. ok
// is false if there is none, or if it cannot be used.
func (f *finder) resolve(name string) (at string, isDir, ok bool) {
	full := filepath.Join(f.dir, filepath.FromSlash(name))
	if _, err := os.Lstat(full); errors.Is(err, fs.ErrNotExist) {
		return "", false, false
	}
	at, err := filepath.EvalSymlinks(full)
	if err != nil {
		f.leave(name, "cannot be read, or is a broken link")
		return "", false, false
	}
	if rel, err := filepath.Rel(f.top, at); err != nil || !filepath.IsLocal(rel) {
		f.leave(name, "is a link out of the repository")
		return "", false, false
	}
	if rel, err := filepath.Rel(f.dir, at); err != nil || strings.ContainsAny(rel, `*?[]{}\$`) || host.Clean(rel) != rel {
		f.leave(name, "no job file can name its path")
		return "", false, false
	}
	info, err := os.Stat(at)
	switch {
	case err != nil:
		f.leave(name, "cannot be read")
	case !info.IsDir() && !info.Mode().IsRegular():
		f.leave(name, "is neither a file nor a directory")
	case f.ignored(name, info.IsDir()):
		f.leave(name, "is ignored by git, so a checkout in CI would not have it")
	default:
		return at, info.IsDir(), true
	}
	return "", false, false
}

// ignored reports whether git ignores a file of the directory.
func (f *finder) ignored(name string, isDir bool) bool {
	ignored, err := agentfiles.Ignored(f.dir, name, isDir)
	return err == nil && ignored
}

// file takes a file or directory, if it is there and can be copied into environments.
func (f *finder) file(name string) bool {
	if slices.ContainsFunc(f.files, func(o ownFile) bool { return o.name == name }) {
		return true
	}
	at, _, ok := f.resolve(name)
	if !ok || !f.loads(name, at) {
		return false
	}
	f.files = append(f.files, ownFile{name, at})
	f.Found = append(f.Found, name)
	return true
}

// loads reports whether a job could copy the file or directory.
func (f *finder) loads(name, at string) bool {
	entry := agent.File{Source: path.Base(name), Target: "/app/" + name, Gitignore: true}
	_, _, err := agentfiles.Load(f.ctx, []agentfiles.Entry{{File: entry, Path: at}})
	if err != nil {
		f.leave(name, err.Error())
	}
	return err == nil
}

// skillsIn takes a directory of skills; a second one is left out.
func (f *finder) skillsIn(name string, known presets.Preset) {
	n := countSkills(filepath.Join(f.dir, filepath.FromSlash(name)))
	if n == 0 {
		return
	}
	at, isDir, ok := f.resolve(name)
	switch {
	case !ok || !isDir || at == f.skills:
	case known.Skills == "":
		f.leave(name, "the preset "+known.Name+" takes no skills")
	case f.skills != "":
		f.leave(name, "skills takes one directory")
	case f.loads(name, at):
		f.skills = at
		f.Found = append(f.Found, name+" ("+plural.Count(n, "skill")+")")
	}
}

// maxListed bounds how many entries of a directory are looked at.
const maxListed = 1000

// countSkills counts the directories with a SKILL.md in a directory, as far as it looks.
func countSkills(dir string) int {
	if !host.IsDir(dir) { // a pipe would block
		return 0
	}
	d, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxListed)
	n := 0
	for _, name := range names {
		if host.IsFile(filepath.Join(dir, name, "SKILL.md")) {
			n++
		}
	}
	return n
}
