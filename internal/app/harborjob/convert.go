// Package harborjob makes a job file of Rollout from one of Harbor.
//
// What has a counterpart is carried over. The rest is noted with its line in Harbor's file and the
// reason, at the top of the file that is written: nothing is left out in silence.
package harborjob

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/config"
)

// Converted is a job file for Rollout.
type Converted struct {
	Text  []byte
	Notes []Note // the keys that are not carried over, by line
}

// Convert returns the job of Rollout that is closest to a job of Harbor. name is how messages call
// Harbor's file. Paths in it are relative to from, the directory in which Harbor is run; those of
// the result to into, that of the new file. Both are absolute. It fails if the text is not a job of
// Harbor, or nothing of its agents or its tasks can be carried over.
//
// Source: Harbor 0.26, src/harbor/models/job/config.py and trial/config.py.
func Convert(name string, text []byte, from, into string) (Converted, error) {
	root, err := parse(text)
	if err != nil {
		return Converted{}, fmt.Errorf("%s: %w", name, err)
	}
	c := &conversion{out: mapping(), from: from, into: into, models: map[string]string{}}
	t := tableOf(&c.notes, "", root)
	if !slices.ContainsFunc([]string{"agents", "datasets", "tasks"}, func(key string) bool { return t.values[key] != nil }) {
		return Converted{}, fmt.Errorf("%s: it is not a job of Harbor: it has none of the keys agents, datasets and tasks", name)
	}
	c.job(t)
	c.environment(t.table("environment"))
	c.verifier(t.table("verifier"))
	c.agents(t)
	c.datasets(t, c.tasks(t))
	t.drop(trialConfigs, "Harbor reads no list of single trials any more: name their tasks in tasks, and their agents in agents")
	t.end()
	slices.SortStableFunc(c.notes, func(a, b Note) int { return a.Line - b.Line })
	for _, key := range []string{"agents", "datasets or tasks"} {
		if !c.has(strings.Split(key, " or ")...) {
			return Converted{}, fmt.Errorf("%s: there are no %s that Rollout could run%s", name, key, why(c.notes, key))
		}
	}
	return c.written(name)
}

// trialConfigs has agents and tasks in files of older versions of Harbor.
const trialConfigs = "trial_configs"

// why returns the notes about some keys, for an error.
func why(notes []Note, keys string) string {
	var out strings.Builder
	for _, n := range notes {
		if first, _, _ := strings.Cut(strings.ReplaceAll(n.Key, "[", "."), "."); first == trialConfigs || slices.Contains(strings.Split(keys, " or "), first) {
			fmt.Fprintf(&out, "\n  line %d: %s: %s", n.Line, n.Key, n.Why)
		}
	}
	return out.String()
}

// conversion is one file on its way.
type conversion struct {
	out        *node
	notes      []Note
	from, into string
	models     map[string]string // their entries as text, by name
}

func (c *conversion) has(keys ...string) bool {
	for i := 0; i+1 < len(c.out.Content); i += 2 {
		if slices.Contains(keys, c.out.Content[i].Value) && len(c.out.Content[i+1].Content) > 0 {
			return true
		}
	}
	return false
}

// path returns a path of Harbor's file relative to the new file.
func (c *conversion) path(p string) string {
	if filepath.IsAbs(p) || strings.HasPrefix(p, "~") {
		return p
	}
	rel, err := filepath.Rel(c.into, filepath.Join(c.from, p))
	if err != nil {
		return p
	}
	return path.Clean(filepath.ToSlash(rel))
}

// copied carries keys over as they are, under other names if those say so.
func (c *conversion) copied(t table, to *node, names ...string) {
	for _, name := range names {
		name, as, other := strings.Cut(name, ":")
		if !other {
			as = name
		}
		if value, ok := t.scalar(name); ok {
			to.number(as, value)
		}
	}
}

// job carries the keys at the top level over. Source: migrate_legacy_job_config, for orchestrator.
func (c *conversion) job(t table) {
	if name, ok := t.scalar("job_name"); ok {
		c.out.set("name", name)
	}
	if dir, ok := t.scalar("jobs_dir"); ok { // relative to the current directory here, too
		c.out.set("jobs_dir", dir)
	}
	c.copied(t, c.out, "n_attempts")
	old := t.table("orchestrator")
	if _, given := t.values["n_concurrent_trials"]; !given {
		c.copied(old, c.out, "n_concurrent_trials")
	}
	c.copied(t, c.out, "n_concurrent_trials", "timeout_multiplier")
	for _, of := range []table{old, t} {
		of.dropAs("quiet", "false", "--quiet says it")
		if retry := of.values["retry"]; retry != nil && tableOf(of.notes, "", retry).get("max_retries") != "0" {
			of.drop("retry", "infrastructure is tried again three times, and agents are not: see retry in docs/job-file.md")
		}
		of.take("retry")
		of.drop("kwargs", "belongs to Harbor's orchestrators")
		of.dropAs("type", "local", "belongs to Harbor's orchestrators")
	}
	old.end()
	if debug, ok := t.scalar("debug"); ok && debug == "true" {
		c.out.set("log_level", "debug")
	}
	for _, phase := range []string{"agent", "verifier", "agent_setup", "environment_build"} {
		t.dropAs(phase+"_timeout_multiplier", "1.0", "timeout_multiplier is for all phases")
	}
	t.drop("schema_version", "says the version of Harbor's format")
	c.notes = slices.DeleteFunc(c.notes, func(n Note) bool { return n.Key == "schema_version" })
	for _, key := range []string{"extra_instructions", "extra_instruction_paths"} {
		t.drop(key, "instructions are the tasks'; an agent can read one from files: and $ROLLOUT_TASK_INSTRUCTION")
	}
	for _, key := range []string{"install_only", "skip_credential_checks"} {
		t.dropAs(key, "false", "Rollout runs whole trials")
	}
	t.drop("override_error_policy", "docs/gate.md says what counts as an error")
	t.drop("user_agent", "there is no simulated user")
	t.drop("source_jobs", "rollout verify and --reuse do this with results of Rollout")
	c.metrics(t)
	c.artifacts(t)
}

func (c *conversion) metrics(t table) {
	metrics := list()
	for i, item := range t.items("metrics") {
		m := tableOf(t.notes, fmt.Sprintf("metrics[%d].", i), item)
		kind, _ := m.scalar("type")
		if !slices.Contains([]string{"sum", "min", "max", "mean"}, kind) {
			t.note("metrics", "%s: want sum, min, max or mean", kind)
			continue
		}
		m.end()
		metrics.Content = append(metrics.Content, mapping().set("type", kind).Node)
	}
	if len(metrics.Content) > 0 {
		c.out.add("metrics", metrics)
	}
}

func (c *conversion) artifacts(t table) {
	var sources []*yaml.Node
	for i, item := range t.items("artifacts") {
		if item.Kind == yaml.MappingNode {
			a := tableOf(t.notes, fmt.Sprintf("artifacts[%d].", i), item)
			item = a.take("source")
			a.end()
		}
		if item != nil && path.IsAbs(item.Value) {
			sources = append(sources, item)
		}
	}
	if len(sources) > 0 {
		c.out.add("artifacts", texts(sources))
	}
}

// environment carries the environment over.
func (c *conversion) environment(t table) {
	out := mapping()
	kind, given := t.scalar("type")
	switch {
	case !given || kind == "docker":
	case kind == "gke":
		t.note("type", "the provider kubernetes takes the cluster of your kubeconfig, see docs/kubernetes.md")
		out.set("type", "kubernetes")
	default:
		t.note("type", "there is no provider %s: docker runs it", kind)
	}
	c.copied(t, out, "force_build", "override_cpus", "override_memory_mb", "override_storage_mb")
	if deleted, ok := t.scalar("delete"); ok && deleted == "false" {
		out.set("preserve_env", string(config.PreserveAlways))
	}
	t.drop("import_path", "a class of Python cannot run here")
	t.drop("env", "variables of tasks are in task.toml, and those of agents in agents[].env")
	for _, key := range []string{"mounts", "mounts_json"} {
		t.drop(key, "files of the repository reach agents by agents[].files; nothing of the machine is mounted")
	}
	t.drop("extra_docker_compose", "a task's own file is read, no other")
	t.drop("extra_allowed_hosts", "environment.allowed_hosts with network: allowlist replaces the task's hosts, and does not add to them")
	for _, key := range []string{"cpu_enforcement_policy", "memory_enforcement_policy"} {
		t.dropAs(key, "auto", "limits are enforced where the provider can")
	}
	for _, key := range []string{"suppress_override_warnings", "stream"} {
		t.dropAs(key, "false", "changes only what Harbor prints")
	}
	t.table("kwargs").dropAll("is an argument of Harbor's class; see environment.provider_config")
	t.end()
	if len(out.Content) > 0 {
		c.out.add("environment", out.Node)
	}
}

// verifier carries the verifier over.
func (c *conversion) verifier(t table) {
	out := mapping()
	c.copied(t, out, "override_timeout_sec", "max_timeout_sec", "disable")
	t.drop("env", "variables of tests are in task.toml; environment.pass_env passes those of the machine")
	t.drop("import_path", "a class of Python cannot run here")
	t.end()
	if len(out.Content) > 0 {
		c.out.add("verifier", out.Node)
	}
}

// datasets carries the datasets over. Single tasks form one, too.
func (c *conversion) datasets(t table, single bool) {
	all, taken, items := list(), names{}, t.items("datasets")
	if single {
		taken.take(config.TasksDataset)
	}
	for _, item := range items { // the name of a registry's dataset stays
		if d := tableOf(t.notes, "", item); d.values["path"] == nil && d.get("name") != "" {
			taken.take(d.get("name"))
		}
	}
	for i, item := range items {
		d := tableOf(t.notes, fmt.Sprintf("datasets[%d].", i), item)
		out := mapping()
		at, local := d.scalar("path")
		name, named := d.scalar("name")
		switch repo, ok := d.scalar("repo"); {
		case ok:
			d.note("repo", "%s: clone it, and name its directory as path", repo)
			continue
		case local:
			out.set("path", c.path(at))
			base := path.Base(c.path(at))
			if as := taken.unique(base); as != base { // names of datasets differ
				out.set("name", as)
			}
		case !named:
			d.note("path", "the dataset has neither path nor name")
			continue
		case strings.Contains(name, "/"):
			d.note("name", "%s is a package of Harbor's Hub: download it, and name its directory as path", name)
			continue
		default:
			c.registry(d, out, name)
		}
		out.set("format", string(config.FormatHarbor))
		for _, globs := range [][2]string{{"task_names", "tasks"}, {"exclude_task_names", "exclude_tasks"}} {
			if items := d.items(globs[0]); len(items) > 0 {
				out.add(globs[1], texts(items))
			}
		}
		if n, ok := d.scalar("n_tasks"); ok {
			out.number("n_tasks", n)
			d.note("n_tasks", "here a random sample of that size (seed chooses another), there the first tasks")
		}
		d.drop("ref", "belongs to Harbor's Hub")
		for _, key := range []string{"overwrite", "download_dir"} {
			d.dropAs(key, "false", "downloads are in Rollout's own cache: rollout cache")
		}
		d.end()
		all.Content = append(all.Content, out.Node)
	}
	if len(all.Content) > 0 {
		c.out.add("datasets", all)
	}
}

// harborRegistry is where Harbor looks for datasets that say no registry.
// Source: Harbor 0.26, src/harbor/constants.py.
const harborRegistry = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"

func (c *conversion) registry(d table, out *node, name string) {
	old := d.table("registry")
	at, local := d.scalar("registry_path")
	if !local {
		at, local = old.scalar("path")
	}
	url, remote := d.scalar("registry_url")
	if !remote {
		url, remote = old.scalar("url")
	}
	old.end()
	switch {
	case local:
		out.add("registry", mapping().set("path", c.path(at)).Node)
	case remote:
		out.add("registry", mapping().set("url", url).Node)
	default:
		out.add("registry", mapping().set("url", harborRegistry).Node)
	}
	out.set("name", name)
	if version, ok := d.scalar("version"); ok {
		out.set("version", version)
	}
}

// tasks carries single tasks over, and reports whether there are any.
func (c *conversion) tasks(t table) bool {
	all := &yaml.Node{Kind: yaml.SequenceNode}
	for i, item := range t.items("tasks") {
		one := tableOf(t.notes, fmt.Sprintf("tasks[%d].", i), item)
		at, ok := one.scalar("path")
		if url, git := one.scalar("git_url"); git {
			one.note("git_url", "%s: a registry.json lists tasks of repositories, see docs/registries.md", url)
			continue
		}
		if !ok {
			one.note("name", "a task of Harbor's Hub: download it, and name its directory")
			continue
		}
		for _, key := range []string{"overwrite", "download_dir", "source"} {
			one.take(key) // say nothing about a local task
		}
		one.end()
		all.Content = append(all.Content, text(c.path(at)))
	}
	if len(all.Content) > 0 {
		c.out.add("tasks", all).set("tasks_format", string(config.FormatHarbor))
	}
	return len(all.Content) > 0
}

// dropAll drops all keys.
func (t table) dropAll(why string) {
	for _, name := range t.names {
		t.drop(name, why)
	}
}

// written returns the file with the notes before it.
func (c *conversion) written(name string) (Converted, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made of %s, a job of Harbor, by rollout import harbor.\n", comment(filepath.Base(name)))
	if len(c.notes) > 0 {
		fmt.Fprintf(&b, "#\n# Not carried over as it is:\n")
		for _, n := range c.notes {
			fmt.Fprintf(&b, "#   line %d, %s: %s\n", n.Line, comment(n.Key), comment(n.Why))
		}
	}
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(c.out.Node), encoder.Close()); err != nil {
		return Converted{}, err
	}
	return Converted{Text: b.Bytes(), Notes: c.notes}, nil
}

// comment returns a text that stays in its line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}
