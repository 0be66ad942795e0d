package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/environment"
)

// Options are what a job file is read with. The zero value reads files as they stand.
type Options struct {
	Stdin     io.Reader                   // read when path is "-"
	Dir       string                      // the current directory; "": os.Getwd
	Getenv    func(string) (string, bool) // like os.LookupEnv, its default
	Providers map[string]ProviderCheck    // the providers there are, by name; nil: not checked
	Overrides []Override                  // flags, in order; they win over the file
	Now       func() time.Time            // for the default job name; time.Now
	// PathsFrom is where relative paths in the file begin; "": the file's directory.
	PathsFrom string
	// Recorded: the file is the config.json of a job that was begun, which has only those agents that were chosen then. Its gate may
	// be about others, too.
	Recorded bool
	// OnlyAgents, if not empty, are the agents to keep. oracle and nop are added when the file does
	// not list them.
	OnlyAgents []string
	Selection  Selection // flags about all datasets; they win over the file
	// Admit is asked about each local file and directory whose content will be run: the job file, directories of tasks, registries. It
	// returns where to read it from instead, or an error, which Load returns as it is. nil: all are read where they are.
	Admit func(path string) (string, error)
}

// admit is Admit, or path.
func (o Options) admit(path string) (string, error) {
	if o.Admit == nil {
		return path, nil
	}
	return o.Admit(path)
}

// Place is a place in a job file, or a flag.
type Place struct {
	File         string
	Line, Column int // from 1; 0: the file or flag as a whole
}

// ProviderCheck looks at environment.provider_config, whose values are map[string]any, []any, string,
// bool, int (whole numbers), float64 (others) and nil. cfg may be nil. It may be called many times.
type ProviderCheck func(cfg map[string]any) []ProviderProblem

// ProviderProblem is what is wrong with one setting. Path is dotted, below provider_config, with
// indexes for entries of lists: "mounts.0.source".
type ProviderProblem = environment.ConfigProblem

// Loaded is a checked job file.
type Loaded struct {
	Job  Job
	File string // as given; "<stdin>" for "-"
	// PathsFrom is the directory where relative paths in the file began, absolute.
	PathsFrom string
	// Unnamed: neither the file nor a flag gave the job a name, so that it is called by the time.
	Unnamed bool
	// Env has each agent's variables with ${VAR} expanded. It is for memory only: never write it.
	Env map[string]map[string]string
	// Secrets are the values that came from the host by ${VAR}, or may by environment.pass_env, of any length but 0, without
	// those of redact.except; sorted, unique. The default of ${VAR:-default} is none.
	Secrets []string
	// Visible are those of Env that hold no secret: literals, defaults, and variables of the host that redact.except names.
	Visible map[string]map[string]string
	// Hidden are for each agent the other variables of the host that it takes values from, sorted.
	Hidden map[string][]string
	// VisiblePassed are those of environment.pass_env that redact.except names, and HiddenPassed the names of the others.
	VisiblePassed map[string]string
	HiddenPassed  []string
	DatasetDirs   []string // absolute, parallel to Job.Datasets; "" for those of registries
	Registries    []string // absolute paths or URLs, parallel to Job.Datasets; "" for directories
	DatasetAt     []Place  // where each of Job.Datasets is named
	TaskDirs      []string // absolute, parallel to Job.Tasks; they need not exist
	Warnings      diag.List
}

// maxSize bounds a job file, in bytes; scripts included, real ones have a hundredth of it.
const maxSize = 1 << 20

// Load reads, checks and completes the job file at path; "-" is standard input. Files that end in
// .json or hold a JSON object are JSON, others YAML. The error is a diag.List with everything that is wrong with the file
// and the flags, sorted; only a file that exists and cannot be read gives another error.
func Load(path string, opts Options) (*Loaded, error) {
	if opts.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the current directory: %w", err)
		}
		opts.Dir = dir
	}
	if opts.Getenv == nil {
		opts.Getenv = os.LookupEnv
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	src, err := read(path, opts)
	if err != nil {
		return nil, err
	}
	if opts.PathsFrom != "" {
		src.dir = resolve(opts.Dir, opts.PathsFrom)
	}
	return src.load(opts)
}

// source is a job file's content.
type source struct {
	file string // for people
	dir  string // absolute: where its relative paths begin
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
	err = environment.OwnFiles(err)
	if errors.Is(err, fs.ErrNotExist) {
		return src, missingFile(path, full)
	}
	if err != nil {
		return src, fmt.Errorf("read the job file: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return src, diag.List{{File: path, Message: "this is a directory, not a job file", Hint: "give the file, such as " + filepath.Join(path, "job.yaml")}}
	}
	src.data, err = readAll(f, path)
	return src, err
}

func missingFile(path, full string) error {
	hint := "rollout init makes an example"
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		other := strings.TrimSuffix(path, filepath.Ext(path)) + ext
		if isFile(filepath.Join(filepath.Dir(full), filepath.Base(other))) {
			hint = fmt.Sprintf("did you mean %q?", other)
			return diag.List{{File: path, Message: "there is no such file", Hint: hint}}
		}
	}
	if near := nearby(full); near != "" {
		hint = fmt.Sprintf("did you mean %q?", filepath.Join(filepath.Dir(path), near))
	}
	return diag.List{{File: path, Message: "there is no such file", Hint: hint}}
}

// nearby is the name of a file or directory beside path that may be meant; "" if there is none.
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
	if len(data) > maxSize {
		return nil, diag.List{{File: name, Message: "the file is larger than 1 MiB", Hint: "keep long scripts in the image or download them in install"}}
	}
	return data, nil
}

// resolve makes path absolute, seen from dir.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// load does everything but reading the file.
func (s source) load(opts Options) (*Loaded, error) {
	var p problems
	root := s.parse(&p)
	if root == nil {
		return nil, p.all(s.file)
	}
	for _, o := range opts.Overrides {
		apply(root, o, &p)
	}
	d := newDecoder(&p)
	c := &checker{decoder: d, source: s, opts: opts, root: root}
	c.out.File, c.out.PathsFrom = s.file, s.dir
	d.decode(root, nil, reflect.ValueOf(&c.out.Job).Elem(), rules{})
	if root.kind == mapping {
		c.check()
	}
	if d.harbor {
		p.add(origin{file: s.file}, "write one for Rollout, with the same datasets: rollout init makes an example; what keys are called here stands beside them",
			"this looks like a job file of Harbor, whose keys differ, and whose agents are Harbor's own: here an agent is an execute script")
	}
	if c.refused != nil {
		return nil, c.refused
	}
	list := p.all(s.file)
	if err := list.Err(); err != nil {
		return nil, err
	}
	c.out.Warnings = list.Warnings()
	return &c.out, nil
}

// parse returns the file's tree; nil when there is nothing to check further, with the problem added.
func (s source) parse(p *problems) *node {
	data := bytes.TrimPrefix(s.data, []byte("\ufeff")) // Windows' editors mark UTF-8 so
	if !utf8.Valid(data) {
		p.add(newLineIndex(s.file, data).at(firstInvalid(data)), "save the file as UTF-8", "the file is not UTF-8")
		return nil
	}
	parse := parseYAML
	if s.json || looksLikeJSON(data) {
		parse = parseJSON
	}
	root := parse(s.file, data, p)
	if root == nil && len(p.list) == 0 || root != nil && root.kind == null {
		p.add(origin{file: s.file}, "rollout init makes an example", "the file is empty")
		return nil
	}
	return root
}

// firstInvalid is the offset of the first byte that is not UTF-8.
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
