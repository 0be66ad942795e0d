package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/fields"
)

// YAML returns a job file for a job whose relative paths begin at from, to be written into the
// directory to; both are absolute. Keys with their default values are left out.
func YAML(job Job, from, to string) ([]byte, error) {
	move := func(path string) string {
		if path == "" || filepath.IsAbs(path) || from == to {
			return path
		}
		if moved, err := filepath.Rel(to, filepath.Join(from, path)); err == nil {
			return filepath.ToSlash(moved)
		}
		return filepath.Join(from, path)
	}
	job.Datasets, job.Tasks, job.Agents = slices.Clone(job.Datasets), slices.Clone(job.Tasks), slices.Clone(job.Agents)
	for i := range job.Datasets {
		ds := &job.Datasets[i]
		ds.Path = move(ds.Path)
		if ds.Registry != nil {
			ds.Registry = &Registry{Path: move(ds.Registry.Path), URL: ds.Registry.URL}
		}
	}
	for i := range job.Tasks {
		job.Tasks[i] = move(job.Tasks[i])
	}
	job.JudgeAgents = slices.Clone(job.JudgeAgents)
	moved := make([]*agent.Agent, 0, len(job.Agents)+len(job.JudgeAgents))
	for i := range job.Agents {
		moved = append(moved, &job.Agents[i])
	}
	for i := range job.JudgeAgents {
		moved = append(moved, &job.JudgeAgents[i])
	}
	for _, a := range moved {
		a.Files = slices.Clone(a.Files)
		for k, f := range a.Files {
			base, glob := agent.SplitGlob(f.Source)
			a.Files[k].Source = filepath.Join(move(base), glob)
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(toYAML(jobFile.Encode(job))); err != nil {
		return nil, fmt.Errorf("write the job as YAML: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// toYAML converts a node to the YAML library's type.
func toYAML(n *fields.Node) *yaml.Node {
	switch n.Kind {
	case fields.List:
		out := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range n.Items {
			out.Content = append(out.Content, toYAML(item))
		}
		return out
	case fields.Mapping:
		out := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range n.Fields {
			out.Content = append(out.Content, textYAML(f.Name), toYAML(f.Value))
		}
		return out
	case fields.Text, fields.Date:
		return textYAML(n.Text)
	case fields.Null:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: n.Text}
}

// textYAML returns text as a YAML node, quoted where it would be read as another type, and as a
// block if it has several lines.
func textYAML(text string) *yaml.Node {
	n := new(yaml.Node)
	n.SetString(text)
	if strings.Contains(strings.TrimSuffix(text, "\n"), "\n") {
		n.Style = yaml.LiteralStyle
	}
	return n
}
