package task

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/lib/quantity"
)

// harborAgentSec is the agent's timeout in tasks that set none. In Harbor there is no limit; a day
// is longer than CI jobs may take.
const harborAgentSec = 24 * 60 * 60

// Defaults returns the configuration of an empty task.toml. Source: specification, "task.toml".
func Defaults(format Format) Config {
	if format == FormatHarbor {
		return harborDefaults()
	}
	return rolloutDefaults()
}

var (
	harborDefaults  = sync.OnceValue(func() Config { return empty(FormatHarbor) })
	rolloutDefaults = sync.OnceValue(func() Config { return empty(FormatRollout) })
)

func empty(format Format) Config {
	c, _ := newReader(&fields.Node{Kind: fields.Mapping}, Options{Format: format}, new(fields.Problems)).read()
	return c
}

const maxConfigSize = 1 << 20

// loadConfig reads task.toml. Invalid values keep their defaults.
func loadConfig(fsys fs.FS, p *problems, opts Options) (Config, variables) {
	c, vars := Defaults(opts.Format), variables{}
	const hint = "it may be as short as: version = \"1.0\""
	content, ok := p.readFile(fsys, configFile, maxConfigSize, hint)
	if !ok {
		return c, vars
	}
	if !utf8.Valid(content) {
		p.add(configFile, "is not UTF-8", "")
		return c, vars
	}
	// Windows editors begin files with a byte order mark. TOML 1.1 allows it; the library does not.
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	var found fields.Problems
	file := p.path(configFile)
	if root, values := parseTOML(file, content, &found); root != nil {
		r := newReader(root, opts, &found)
		c, vars = r.read()
		r.judges(fsys, c.Judges, p.path)
		c.Metadata, _ = values["metadata"].(map[string]any)
	}
	p.list = append(p.list, found.All(file)...)
	return c, vars
}

// reader makes a Config of a task.toml. It makes the checks that tags cannot express: those that
// depend on the task's format, on other keys and on the host.
type reader struct {
	*fields.Decoder
	opts Options
	file file
}

func newReader(root *fields.Node, opts Options, p *fields.Problems) *reader {
	r := &reader{Decoder: fields.NewDecoder(dialect, root, p), opts: opts}
	r.Unknown = r.unknownKeys
	return r
}

func (r *reader) read() (c Config, vars variables) {
	vars.harborKey = harborKey(r.Root)
	r.spellings()
	f := &r.file
	r.Decode(f)
	c = Config{
		Version: r.version(), Source: f.Source, Info: f.Info,
		Verifier: f.Verifier.Verifier, Agent: f.Agent.Agent, Environment: f.Environment.Environment, Solution: f.Solution,
		Artifacts: r.artifacts(), Judges: f.Judges, Reward: f.Reward,
	}
	if len(c.Judges) > 0 || c.Reward != "" {
		vars.root = r.Root
	}
	at := fields.Path{"environment"}
	r.complete(at, &c.Environment)
	r.separate(&c)
	c.Environment.Networks = r.networks(c.Verifier.Environment != nil)
	if r.opts.Format == FormatHarbor && !r.sets("agent", "timeout_sec") {
		c.Agent.TimeoutSec = harborAgentSec
	}
	vars.environment = r.expand(at.Child("env"), f.Environment.Env, r.Problems, &vars.unset)
	vars.apart, vars.fresh = f.Verifier.Own.given, f.Verifier.Own.fresh
	vars.separate = r.expand(separateAt.Child("env"), f.Verifier.Own.Env, r.Problems, &vars.unset)
	vars.verifier = r.expand(fields.Path{"verifier", "env"}, f.Verifier.Env, r.Problems, &vars.unset)
	vars.image = f.Verifier.Own.image()
	var solution fields.Problems
	vars.solution = r.expand(fields.Path{"solution", "env"}, f.Solution.Env, &solution, &vars.solutionUnset)
	vars.solutionProblems = solution.All(r.Root.At.File)
	r.steps(&c, &vars)
	return c, vars
}

// complete checks and completes an environment, whose table is at at, except its networks.
func (r *reader) complete(at fields.Path, e *Environment) {
	e.WorkDir = r.workDir(at.Child("workdir"), e.WorkDir)
	r.servers(at.Child("mcp_servers"), e.MCPServers)
	e.Explicit = ExplicitLimits{CPUs: r.sets(at.Child("cpus")...), Memory: r.setsSize(at, "memory"), Storage: r.setsSize(at, "storage")}
	if r.opts.Format == FormatHarbor {
		e.onlyExplicitLimits()
	}
}

// servers checks the MCP servers at at.
func (r *reader) servers(at fields.Path, servers []MCPServer) {
	names := map[string]bool{}
	for i, s := range servers {
		p := at.Index(i)
		if r.BadBelow(p) {
			continue
		}
		if err := s.Server().Check(); err != nil {
			r.Problem(p, "give it a command, or a url", "MCP server %q: %v", fields.Shorten(s.Name), err)
		}
		if names[s.Name] {
			r.Problem(p.Child("name"), "rename one of them", "there are two MCP servers with the name %q", fields.Shorten(s.Name))
		}
		names[s.Name] = true
	}
}

// sets reports whether the document has a valid value at p.
func (r *reader) sets(p ...string) bool { return r.Root.Given(p...) != nil && !r.Bad(p) }

// setsSize reports whether the table at at has a valid amount of memory or storage, in either form.
func (r *reader) setsSize(at fields.Path, key string) bool {
	size, mb := at.Child(key), at.Child(key+"_mb")
	return (r.sets(size...) || r.sets(mb...)) && !r.Bad(size) && !r.Bad(mb)
}

// version reads version, or Harbor's schema_version.
func (r *reader) version() string {
	version, key := r.file.Version, "version"
	if r.Root.Given(key) == nil {
		version, key = cmp.Or(r.file.SchemaVersion, version), "schema_version"
	}
	at := r.Root.Locate(fields.Path{key}, false)
	if r.Root.Given(key) == nil && r.opts.Format != FormatHarbor {
		r.Warn(at, fmt.Sprintf("begin with: version = %q", version), "%q is missing; using %q", "version", version)
	}
	if minor, isOne := strings.CutPrefix(version, "1."); version != "1" && !isOne {
		r.Warn(at, "", "unknown version %q of the format; reading it as 1.0", version)
	} else if n, err := strconv.Atoi(minor); err == nil && n > lastMinor {
		r.Warn(at, "", "unknown version %q of the format; reading it as 1.%d", version, lastMinor)
	}
	return version
}

// lastMinor is the newest minor version of Harbor's task.toml whose keys are known: 1.4, of Harbor
// 0.22.
const lastMinor = 4

// userName matches a user's name or number, with an optional group. Only the environment knows
// whether they exist.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)

const maxUserID = 1<<32 - 2

// DecodeNode reads a user's name or number.
func (u *User) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, r fields.Rules) bool {
	id, _ := n.Number()
	switch {
	case n.Kind == fields.Int && id >= 0 && id <= maxUserID:
		*u = User(strconv.FormatFloat(id, 'f', -1, 64))
	case n.Kind == fields.Text && userName.MatchString(n.Text):
		*u = User(n.Text)
	default:
		return d.MustBe(n, p, r, "", "")
	}
	return true
}

// DecodeNode reads a quantity. It refuses numbers, which usually mean megabytes.
func (s *Size) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, r fields.Rules) bool {
	if n.Kind != fields.Text {
		return d.MustBe(n, p, r, "", "")
	}
	return d.Value(n, p, (*int64)(s), r)
}

// workDir returns the clean path of a directory in an environment, which is the value at at.
func (r *reader) workDir(at fields.Path, dir string) string {
	switch {
	case dir == "" || dir == "/":
		return dir
	case badPath(dir):
		r.Problem(at, `write it like "/app"`, "%q: %q is not an absolute path", at, fields.Shorten(dir))
		return ""
	default:
		return path.Clean(dir)
	}
}

// harborSize matches a size in Harbor's notation, whose units are powers of 1024.
var harborSize = regexp.MustCompile(`^\s*(\d+(?:\.\d+)?)\s*([GMKgmk])\s*$`)

// spellings replaces Harbor's spellings in the tree with Rollout's: schema_version and no-network
// in all tasks, and the units of sizes in tasks written for Harbor. These may give a size in both
// forms if they are equal; then one is removed.
func (r *reader) spellings() {
	if second := r.Root.Given("schema_version"); second != nil && r.Root.Given("version") != nil {
		second.Kind = fields.Null // version counts
	}
	r.environmentSpellings(r.Root.Given("environment"))
	r.environmentSpellings(r.Root.Given(separateAt...))
	if steps := r.Root.Given("steps"); steps != nil && steps.Kind == fields.List {
		for _, step := range steps.Items {
			r.environmentSpellings(step.Given(separateAt...))
		}
	}
}

// onlyOurs are keys of an environment that Harbor does not have.
var onlyOurs = []string{"network", "network_during_install", "network_during_verify"}

func (r *reader) environmentSpellings(env *fields.Node) {
	for _, key := range onlyOurs {
		if f := env.Field(key); f != nil && r.opts.Format == FormatHarbor {
			r.Warn(f.At, "write network_mode in tasks made for Harbor", "%q has no effect: Harbor does not have it", key)
			f.Value.Kind = fields.Null
		}
	}
	if network := env.Given("network"); network != nil && network.Text == "no-network" {
		network.Text = "none"
	}
	if r.opts.Format != FormatHarbor {
		return
	}
	for _, key := range []string{"memory", "storage"} {
		size, mb := env.Given(key), env.Given(key+"_mb")
		if size == nil || size.Kind != fields.Text {
			continue
		}
		if m := harborSize.FindStringSubmatch(size.Text); m != nil {
			size.Text = m[1] + strings.ToUpper(m[2]) + "i"
		}
		bytes, err := quantity.Bytes(size.Text)
		if n, ok := mb.Number(); ok && err == nil && float64(bytes) == n*(1<<20) {
			mb.Kind = fields.Null
		}
	}
}

// onlyExplicitLimits removes limits that a task does not set itself: tasks written for Harbor have
// no others. Source: Harbor 0.22, src/harbor/models/task/config.py.
func (e *Environment) onlyExplicitLimits() {
	if !e.Explicit.CPUs {
		e.MilliCPUs = 0
	}
	if !e.Explicit.Memory {
		e.Memory = 0
	}
	if !e.Explicit.Storage {
		e.Storage = 0
	}
}
