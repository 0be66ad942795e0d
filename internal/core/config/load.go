package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/foreign"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/model/scripted"
)

// Options configure how a job file is loaded. The zero value reads the file without checks of the
// provider.
type Options struct {
	Stdin     io.Reader                   // read when path is "-"
	Dir       string                      // the current directory; "": os.Getwd
	Getenv    func(string) (string, bool) // like os.LookupEnv, its default
	Providers map[string]ProviderCheck    // the providers there are, by name; nil: not checked
	// ProviderAliases are other names of providers, with the names that replace them.
	ProviderAliases map[string]string
	Overrides       []Override       // flags, in order; they win over the file
	Now             func() time.Time // for the default job name; time.Now
	// PathsFrom is the base of relative paths in the file; "": the file's directory.
	PathsFrom string
	// Recorded: the file is the config.json of an existing job. It only has the agents that were
	// selected then, so its gate may mention others.
	Recorded bool
	// OnlyAgents are the agents to keep; empty: all. oracle and nop are added if the file does not
	// list them.
	OnlyAgents []string
	// AnyAgents: names in OnlyAgents that the file does not have are left out, and no agent need be
	// left.
	AnyAgents bool
	Selection Selection // flags about all datasets; they win over the file
	// Name is the name of an existing job; it wins over the file, and its placeholders are not
	// replaced. "": the file or a flag names the job.
	Name string
	// Commit returns the commit of the job file's repository, for {commit} in name; "" or nil:
	// there is none.
	Commit func() string
	// Run identifies the run of the workflow, for {run} in name; "": this is none, so names with
	// {run} are numbered.
	Run string
	// Admit is called with each local file and directory whose content will run: the job file,
	// directories of tasks, registries. It returns the path to read instead, or an error, which
	// Load returns unchanged. nil: all are read where they are.
	Admit func(path string) (string, error)
	// AlsoModels are models that the judges of tasks use.
	AlsoModels []string
	// Unused: the values of variables are not used, because no agent and no model runs. One that is
	// not set is only worth a warning.
	Unused bool
	// OnlyJobFile: the files that the job file names, such as the scripts of models, are not read.
	OnlyJobFile bool
}

// admit calls Admit, or returns path.
func (o Options) admit(path string) (string, error) {
	if o.Admit == nil {
		return path, nil
	}
	return o.Admit(path)
}

// Place is a position in a job file, or a flag.
type Place = fields.Place

// ProviderCheck returns the problems with environment.provider_config, whose values are
// map[string]any, []any, string, bool, int (whole numbers), float64 (others) and nil. cfg may be
// nil. It may be called many times.
type ProviderCheck func(cfg map[string]any) []ProviderProblem

// ProviderProblem is a problem with one setting. Path is relative to provider_config, dotted, with
// indexes for entries of lists: "mounts.0.source".
type ProviderProblem = environment.ConfigProblem

// Loaded is a checked job file.
type Loaded struct {
	Job  Job
	File string // as given; "<stdin>" for "-"
	// PathsFrom is the base of relative paths in the file, absolute.
	PathsFrom string
	// Unnamed: neither the file nor a flag names the job, so its name is the time.
	Unnamed bool
	// NameAsWritten is the name with its placeholders; "" if there is none.
	NameAsWritten string
	// NotSelected are the file's agents and datasets that Options.OnlyAgents and
	// Selection.Datasets leave out, sorted.
	NotSelected struct{ Agents, Datasets []string }
	// Numbered returns the name of the nth run of a job whose name has {run}, outside a workflow.
	// Job.Name is that of the first. nil: the name has no number.
	Numbered func(n int) string
	// Env holds each agent's variables with ${VAR} expanded. They must stay in memory: never write
	// them.
	Env map[string]map[string]string
	// Secrets are the non-empty values of the host's variables that ${VAR} or environment.pass_env
	// uses, except those in redact.except; sorted, unique. The default in ${VAR:-default} is not
	// secret.
	Secrets []string
	// Visible are the entries of Env without secrets: literals, defaults, and variables of the host
	// in redact.except.
	Visible map[string]map[string]string
	// Hidden are the names of the other host variables that each agent uses, sorted.
	Hidden map[string][]string
	// Variables are the host's variables that agents and models use without a default, and whether
	// they are set and not empty.
	Variables map[string]bool
	// VisiblePassed are the variables of environment.pass_env in redact.except; HiddenPassed are
	// the names of the others.
	VisiblePassed map[string]string
	HiddenPassed  []string
	// Models holds the secrets of the models that agents and judges use, by name; Scripts those of
	// scripted ones, and ScriptFiles their absolute paths.
	Models map[string]ModelSecrets
	// ModelAt returns the position of a model's key, "" for the model itself, and its path:
	// models.sonnet.api_key.
	ModelAt     func(name, key string) (Place, string)
	Scripts     map[string]scripted.Script
	ScriptFiles map[string]string
	// UseModels adds models of the job file that tasks use to Models, the related fields and
	// Secrets. Unknown names are ignored. The error is as in Load.
	UseModels func(names []string) error
	// RecordDirs holds the absolute paths of models' record_to and replay.
	RecordDirs map[string]string
	// AgentFiles has, by agent, the absolute path of each of its files (of a glob: of the directory
	// that it begins in), and AgentFilesAt their positions.
	AgentFiles   map[string][]string
	AgentFilesAt map[string][]Place
	// JudgeFiles are the files that judges of the job file name. They are in Job.
	JudgeFiles []JudgeFile
	// At returns the position of a value of the job file.
	At func(fields.Path) Place
	// Elsewhere returns a hint for a path of the job file that does not exist, such as one with a
	// similar name.
	Elsewhere   func(path string) string
	DatasetDirs []string // absolute, parallel to Job.Datasets; "" for those of registries
	Registries  []string // absolute paths or URLs, parallel to Job.Datasets; "" for directories
	DatasetAt   []Place  // the position of each of Job.Datasets
	TaskDirs    []string // absolute, parallel to Job.Tasks; they need not exist
	Warnings    diag.List
}

// maxSize is the maximum size of a job file in bytes; real ones, with their scripts, have a
// hundredth of it.
const maxSize = 1 << 20

// Load reads, checks and completes the job file at path; "-" is standard input. A file that ends in
// .json, or that is a JSON object, is JSON; others are YAML. The error is a diag.List with all
// problems of the file and the flags, sorted. Only if a file exists and cannot be read, it is
// another error.
func Load(path string, opts Options) (*Loaded, error) {
	opts, err := opts.completed()
	if err != nil {
		return nil, err
	}
	src, err := read(path, opts)
	if err != nil {
		return nil, err
	}
	if opts.PathsFrom != "" {
		src.dir = resolve(opts.Dir, opts.PathsFrom)
	}
	var p fields.Problems
	root := src.parse(&p)
	if root == nil {
		return nil, p.All(src.file)
	}
	return src.load(root, &p, opts)
}

// completed returns the options with their defaults.
func (o Options) completed() (Options, error) {
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return o, fmt.Errorf("find the current directory: %w", err)
		}
		o.Dir = dir
	}
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// source is a job file's content.
type source struct {
	file string // for messages
	dir  string // absolute base of its relative paths
	data []byte
	json bool // it must be JSON
}

func read(path string, opts Options) (source, error) {
	if path == "-" {
		data, err := readAll(opts.Stdin, "<stdin>")
		return source{file: "<stdin>", dir: opts.Dir, data: data}, err
	}
	full := resolve(opts.Dir, path)
	src := source{file: path, dir: filepath.Dir(full), json: strings.EqualFold(filepath.Ext(path), ".json")}
	admitted, err := opts.admit(full)
	if err != nil {
		return src, err
	}
	f, err := os.Open(admitted)
	err = environment.MarkMachineError(err)
	if errors.Is(err, fs.ErrNotExist) {
		return src, missingFile(path, full)
	}
	if err != nil {
		return src, fmt.Errorf("read the job file: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return src, diag.List{{File: path, Message: "this is a directory, not a job file", Hint: "name the file, such as " + filepath.Join(path, "job.yaml")}}
	}
	src.data, err = readAll(f, path)
	return src, err
}

// FileNear reports whether there is a probable correction of a path that does not exist: a file or
// directory with a similar name.
func FileNear(path string) bool { return meant(path, path) != "" || git.SubmoduleHint(path) != "" }

// meant returns a probable correction of a path that does not exist, or "": a file with another
// ending, or a file or directory with a similar name. full is the path to look at.
func meant(path, full string) string {
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		other := strings.TrimSuffix(path, filepath.Ext(path)) + ext
		if isFile(filepath.Join(filepath.Dir(full), filepath.Base(other))) {
			return other
		}
	}
	if near := nearby(full); near != "" {
		return filepath.Join(filepath.Dir(path), near)
	}
	return ""
}

func missingFile(path, full string) error {
	hint := "rollout init makes an example"
	if other := meant(path, full); other != "" {
		hint = fmt.Sprintf("did you mean %q?", other)
	}
	if module := git.SubmoduleHint(full); module != "" {
		hint = module
	}
	return diag.List{{File: path, Message: "there is no such file", Hint: hint}}
}

// nearby returns the name of a file or directory in the same directory as path with a similar name,
// or "".
func nearby(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return diag.Nearest(filepath.Base(path), names)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func readAll(r io.Reader, name string) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the job file: %w", err)
	}
	if of, ok := foreign.File(name, data); ok && len(data) > maxSize {
		return nil, diag.List{{File: name, Message: "this is " + of.Is, Hint: of.WayOut}}
	}
	if len(data) > maxSize {
		return nil, diag.List{{File: name, Message: "the file is larger than 1 MiB", Hint: "keep long scripts in the image or download them in install"}}
	}
	return data, nil
}

// resolve returns path as an absolute path; a relative one begins at dir.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// load checks and completes the file's tree. p has the problems found so far.
func (s source) load(root *fields.Node, p *fields.Problems, opts Options) (*Loaded, error) {
	for _, o := range opts.Overrides {
		apply(root, o, p)
	}
	d := newDecoder(root, p)
	c := &checker{decoder: d, source: s, opts: opts}
	c.out.File, c.out.PathsFrom = s.file, s.dir
	c.out.At = func(p fields.Path) Place { return root.Locate(p, false) }
	c.out.Elsewhere = c.elsewhereAny
	d.Decode(&c.out.Job)
	if root.Kind == fields.Mapping {
		c.check()
	}
	if d.harbor {
		p.Add(fields.Place{File: s.file}, "convert it with rollout import harbor, which comments on all that it leaves out; the hints below name the keys",
			"this looks like a job file of Harbor: Rollout's keys differ, and an agent is an execute script")
	}
	if c.refused != nil {
		return nil, c.refused
	}
	if !opts.OnlyJobFile && !opts.Recorded && p.List.Err() != nil {
		c.missingFiles()
	}
	list := p.All(s.file)
	if err := list.Err(); err != nil {
		return nil, err
	}
	c.out.Warnings = list.Warnings()
	return &c.out, nil
}

// parse returns the file's tree, or nil if there is nothing to check; it has then added a problem.
func (s source) parse(p *fields.Problems) *fields.Node {
	if of, ok := foreign.File(s.file, s.data); ok {
		p.Add(fields.Place{File: s.file}, of.WayOut, "this is %s", of.Is)
		return nil
	}
	data := bytes.TrimPrefix(s.data, []byte("\ufeff")) // Windows editors mark UTF-8 this way
	if !utf8.Valid(data) {
		p.Add(fields.NewLines(s.file, data).At(firstInvalid(data)), "save the file as UTF-8", "the file is not UTF-8")
		return nil
	}
	parse := parseYAML
	if s.json || looksLikeJSON(data) {
		parse = parseJSON
	}
	root := parse(s.file, data, p)
	if root == nil && len(p.List) == 0 || root != nil && root.Kind == fields.Null {
		p.Add(fields.Place{File: s.file}, "rollout init makes an example", "the file is empty")
		return nil
	}
	return root
}

// firstInvalid returns the offset of the first byte that is not UTF-8.
func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}
