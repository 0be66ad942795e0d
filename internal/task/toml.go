package task

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/quantity"
)

// harborAgentSec is the agent's timeout in tasks that set none. In Harbor there is no limit; a day is longer than CI jobs may
// take.
const harborAgentSec = 24 * 60 * 60

// Defaults returns the configuration of an empty task.toml. Source: specification, "task.toml". Tasks written for Harbor only
// have the limits that they set themselves; source: Harbor 0.22, src/harbor/models/task/config.py.
func Defaults(format Format) Config {
	c := Config{
		Version:  "1.0",
		Verifier: Verifier{TimeoutSec: 600},
		Agent:    Agent{InstallTimeoutSec: 300, TimeoutSec: 600},
		Environment: Environment{
			BuildTimeoutSec: 600,
			MilliCPUs:       1000,
			Memory:          2e9,
			Storage:         10e9,
		},
	}
	if format == FormatHarbor {
		c.Agent.TimeoutSec = harborAgentSec
		c.Environment.MilliCPUs, c.Environment.Memory, c.Environment.Storage = 0, 0, 0
	}
	return c
}

const (
	maxConfigSize = 1 << 20
	// maxKeys limits the keys of a task.toml, including its tables: the decoder compares each key with all before it. Real
	// files have some dozens.
	maxKeys = 5000
)

// Timeouts outside these bounds are mistakes; longer ones would also overflow a time.Duration when multiplied.
const (
	minTimeoutSec = 0.001
	maxTimeoutSec = 365 * 24 * 60 * 60
)

// minSize is the least valid amount of memory or storage.
const minSize = 1 << 20

// loadConfig reads task.toml. Invalid values keep their defaults.
func loadConfig(fsys fs.FS, p *problems, opts Options) (Config, variables) {
	c := Defaults(opts.Format)
	const hint = "it may be as short as: version = \"1.0\""
	content, ok := p.readFile(fsys, configFile, maxConfigSize, hint)
	if !ok {
		return c, variables{}
	}
	if !utf8.Valid(content) {
		p.add(configFile, "is not UTF-8", "")
		return c, variables{}
	}
	// Windows editors begin files with a byte order mark. TOML 1.1 allows it; the library does not.
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if line := tooManyKeys(content); line > 0 {
		p.list = append(p.list, diag.Diagnostic{
			File: p.path(configFile), Line: line, Message: fmt.Sprintf("has more than %d keys", maxKeys), Hint: "keep data in files of its own",
		})
		return c, variables{}
	}
	var root map[string]any
	if err := toml.Unmarshal(content, &root); err != nil {
		p.list = append(p.list, syntaxProblem(p.path(configFile), err))
		return c, variables{}
	}
	d := &document{file: p.path(configFile), opts: opts, positions: positionsOf(content)}
	vars := d.read(root, &c)
	p.list = append(p.list, first(d.problems, d.file)...)
	vars.solutionProblems = first(vars.solutionProblems, d.file)
	return c, vars
}

// maxProblems is how many problems of a task.toml are reported, for each severity.
const maxProblems = 100

// first returns the first problems of a list, and a note on how many more there are.
func first(list diag.List, file string) diag.List {
	if len(list) <= maxProblems {
		return list
	}
	list.Sort()
	var out diag.List
	for _, some := range []diag.List{list.Errors(), list.Warnings()} {
		more := len(some) - maxProblems
		out = append(out, some[:min(len(some), maxProblems)]...)
		if more > 0 {
			out = append(out, diag.Diagnostic{File: file, Severity: some[0].Severity, Message: fmt.Sprintf("and %d more of this kind", more)})
		}
	}
	return out
}

func syntaxProblem(file string, err error) diag.Diagnostic {
	out := diag.Diagnostic{File: file, Message: strings.TrimPrefix(err.Error(), "toml: ")}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		out.Line, out.Column = de.Position()
	}
	return out
}

// document is a task.toml while it is read.
type document struct {
	file      string
	opts      Options
	positions positions
	problems  diag.List
}

func (d *document) read(values map[string]any, c *Config) (vars variables) {
	root := table{d, nil, values}
	vars.harborKey = harborKey(values)
	c.Version = d.version(root, c.Version)
	root.text("source", &c.Source)
	if metadata := root.table("metadata"); metadata.values != nil {
		c.Metadata = metadata.values
	}

	info := root.table("task")
	c.Info = info.info()

	verifier := root.table("verifier")
	verifier.timeout("timeout_sec", &c.Verifier.TimeoutSec)
	verifier.user("user", &c.Verifier.User)
	c.Verifier.Env, vars.verifier = verifier.table("env").env(d.opts, nil)

	agent := root.table("agent")
	agent.timeout("install_timeout_sec", &c.Agent.InstallTimeoutSec)
	agent.timeout("timeout_sec", &c.Agent.TimeoutSec)
	agent.user("user", &c.Agent.User)

	env := root.table("environment")
	env.timeout("build_timeout_sec", &c.Environment.BuildTimeoutSec)
	c.Environment.Networks = readNetworks(env, agent, verifier)
	env.image("docker_image", &c.Environment.DockerImage)
	c.Environment.Explicit = ExplicitLimits{
		CPUs:    env.cpus("cpus", &c.Environment.MilliCPUs),
		Memory:  env.size("memory", "memory_mb", &c.Environment.Memory),
		Storage: env.size("storage", "storage_mb", &c.Environment.Storage),
	}

	env.workDir("workdir", &c.Environment.WorkDir)
	c.Environment.Env, vars.environment = env.table("env").env(d.opts, nil)
	health := env.table("healthcheck")
	c.Environment.Healthcheck = health.healthcheck()

	solution := root.table("solution")
	c.Solution.Env, vars.solution = solution.table("env").env(d.opts, &vars.solutionProblems)
	c.Artifacts = root.artifacts("artifacts")

	for _, t := range []table{root, info, verifier, agent, env, health, solution} {
		t.checkKeys()
	}
	return vars
}

// version reads version, or Harbor's schema_version.
func (d *document) version(root table, fallback string) string {
	var version string
	key := "version"
	if !root.has(key) && root.has("schema_version") {
		key = "schema_version"
	}
	if !root.has(key) {
		d.problems = append(d.problems, diag.Diagnostic{
			File: d.file, Severity: diag.Warning,
			Message: fmt.Sprintf("%q is missing; using %q", "version", fallback),
			Hint:    fmt.Sprintf("begin with: version = %q", fallback),
		})
		return fallback
	}
	root.text(key, &version)
	if version == "" {
		return fallback
	}
	if minor, isOne := strings.CutPrefix(version, "1."); version != "1" && !isOne {
		root.warning(key, fmt.Sprintf("unknown version %q of the format; reading it as 1.0", version), "")
	} else if n, err := strconv.Atoi(minor); err == nil && n > lastMinor {
		root.warning(key, fmt.Sprintf("unknown version %q of the format; reading it as 1.%d", version, lastMinor), "")
	}
	return version
}

// lastMinor is the newest minor version of Harbor's task.toml whose keys are known: 1.4, of Harbor 0.22.
const lastMinor = 4

// table is one table of the document; values is nil if it is missing.
type table struct {
	doc    *document
	path   []string
	values map[string]any
}

func (t table) has(key string) bool { _, ok := t.values[key]; return ok }

// name returns the full name of the key, such as environment.cpus.
func (t table) name(key string) string { return strings.Join(append(slices.Clone(t.path), key), ".") }

func (t table) add(severity diag.Severity, key, message, hint string) {
	line, column := t.doc.positions.of(append(slices.Clone(t.path), key))
	t.doc.problems = append(t.doc.problems, diag.Diagnostic{
		File: t.doc.file, Line: line, Column: column, Message: message, Hint: hint, Severity: severity,
	})
}

func (t table) problem(key, message, hint string) { t.add(diag.Error, key, message, hint) }

func (t table) warning(key, message, hint string) { t.add(diag.Warning, key, message, hint) }

// wrongType reports a value of the wrong type.
func (t table) wrongType(key, want, hint string) {
	t.problem(key, fmt.Sprintf("%q must be %s, not %s", t.name(key), want, kindOf(t.values[key])), hint)
}

func (t table) table(key string) table {
	out := table{doc: t.doc, path: append(slices.Clone(t.path), key)}
	v, ok := t.values[key]
	if !ok {
		return out
	}
	if out.values, ok = v.(map[string]any); !ok {
		t.wrongType(key, "a table", fmt.Sprintf("write [%s]", key))
	}
	return out
}

func (t table) text(key string, to *string) {
	v, ok := t.values[key]
	if !ok {
		return
	}
	s, ok := v.(string)
	if !ok {
		t.wrongType(key, "a string", fmt.Sprintf("write %s = \"...\"", key))
		return
	}
	*to = s
}

// image reads the name of an image. Only the provider knows whether it exists.
func (t table) image(key string, to *string) {
	var name string
	t.text(key, &name)
	if strings.ContainsFunc(name, unicode.IsSpace) {
		t.problem(key, fmt.Sprintf("%q is not the name of an image", name), "")
		return
	}
	*to = name
}

// userName matches a user's name or number, with an optional group. Only the environment knows whether they exist.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)

// user reads a user's name or number.
func (t table) user(key string, to *string) {
	if id, ok := t.values[key].(int64); ok && id >= 0 && id <= maxUserID {
		*to = strconv.FormatInt(id, 10)
		return
	}
	name, isText := t.values[key].(string)
	switch {
	case !t.has(key), isText && name == "":
	case !isText || !userName.MatchString(name):
		t.problem(key, fmt.Sprintf("%q must be the name or number of a user", t.name(key)), `write user = "agent", or user = 1000`)
	default:
		*to = name
	}
}

const maxUserID = 1<<32 - 2

// workDir reads the path of a directory in the environment.
func (t table) workDir(key string, to *string) {
	var dir string
	t.text(key, &dir)
	if dir != "" && (!path.IsAbs(dir) || dir != "/" && badPath(dir)) {
		t.problem(key, fmt.Sprintf("%q: %q is not an absolute path", t.name(key), shorten(dir)), `write it like "/app"`)
		return
	}
	if dir != "" {
		*to = path.Clean(dir)
	}
}

// timeout reads a number of seconds.
func (t table) timeout(key string, to *float64) {
	v, ok := t.values[key]
	if !ok {
		return
	}
	sec, ok := number(v)
	if !ok {
		t.wrongType(key, "a number of seconds", fmt.Sprintf("write %s = %v", key, *to))
		return
	}
	// NaN fails both comparisons.
	if !(sec >= minTimeoutSec && sec <= maxTimeoutSec) {
		t.problem(key, fmt.Sprintf("%q must be more than 0 seconds and at most a year, not %v", t.name(key), v), "")
		return
	}
	*to = sec
}

// cpus reads a quantity string ("0.5", "500m") or a number, and reports whether there was one.
func (t table) cpus(key string, to *int64) bool {
	v, ok := t.values[key]
	if !ok {
		return false
	}
	text, isText := v.(string)
	if n, ok := number(v); ok {
		text = strconv.FormatFloat(n, 'f', -1, 64)
	} else if !isText {
		t.wrongType(key, "a number of CPUs", `write cpus = 2, or cpus = "500m"`)
		return false
	}
	switch milli, err := quantity.MilliCPUs(text); {
	case err != nil:
		t.problem(key, fmt.Sprintf("%q: %v", t.name(key), err), "")
		return false
	case milli == 0:
		t.problem(key, fmt.Sprintf("%q must be more than 0", t.name(key)), "")
		return false
	default:
		*to = milli
		return true
	}
}

// size reads an amount of bytes: key as a quantity string ("2G"), or keyMB as a number of MiB. It reports whether there was
// one.
func (t table) size(key, keyMB string, to *int64) bool {
	if t.has(key) && t.has(keyMB) && !t.sameSize(key, keyMB) {
		t.problem(keyMB, fmt.Sprintf("%q and %q are the same setting", t.name(key), t.name(keyMB)), "keep one of them")
		return false
	}
	if t.has(keyMB) {
		return t.mebibytes(keyMB, to)
	}
	v, ok := t.values[key]
	if !ok {
		return false
	}
	text, ok := v.(string)
	if !ok {
		t.wrongType(key, "an amount as a string", fmt.Sprintf("write %s = \"2G\", or %s = 2048", key, keyMB))
		return false
	}
	n, err := quantity.Bytes(t.binary(text))
	return t.setSize(key, n, err, to)
}

// harborSize matches a size in Harbor's notation, whose units are powers of 1024.
var harborSize = regexp.MustCompile(`^\s*(\d+(?:\.\d+)?)\s*([GMKgmk])\s*$`)

// binary converts Harbor's notation of a size to Kubernetes's.
func (t table) binary(size string) string {
	if m := harborSize.FindStringSubmatch(size); m != nil && t.doc.opts.Format == FormatHarbor {
		return m[1] + strings.ToUpper(m[2]) + "i"
	}
	return size
}

// sameSize reports whether both forms of a size are equal, which is allowed in tasks written for Harbor.
func (t table) sameSize(key, keyMB string) bool {
	text, isText := t.values[key].(string)
	mb, isNumber := number(t.values[keyMB])
	n, err := quantity.Bytes(t.binary(text))
	return t.doc.opts.Format == FormatHarbor && isText && isNumber && err == nil && float64(n) == mb*(1<<20)
}

// mebibytes reads a number of MiB; see quantity.MiB.
func (t table) mebibytes(key string, to *int64) bool {
	f, ok := number(t.values[key])
	if !ok {
		t.wrongType(key, "a whole number of megabytes", fmt.Sprintf("write %s = 2048", key))
		return false
	}
	n, err := quantity.MiB(strconv.FormatFloat(f, 'f', -1, 64))
	return t.setSize(key, n, err, to)
}

func (t table) setSize(key string, n int64, err error, to *int64) bool {
	switch {
	case err != nil:
		t.problem(key, fmt.Sprintf("%q: %v", t.name(key), err), "")
		return false
	case n < minSize:
		t.problem(key, fmt.Sprintf("%q must be at least 1Mi", t.name(key)), "")
		return false
	default:
		*to = n
		return true
	}
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// kindOf returns the TOML name of a value's type.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}
