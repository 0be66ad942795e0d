package config

import "github.com/org/rollout-action/internal/lib/fields"

// ParseStored parses the config.json of a job, to compare it with another: defaults are filled in,
// but nothing is expanded, and datasets and providers need not exist. file is the name for
// messages. The error is a diag.List.
func ParseStored(file string, data []byte) (Job, error) {
	var p fields.Problems
	var job Job
	src := source{file: file, data: data, json: true}
	root := src.parse(&p)
	if root == nil {
		return job, p.All(file)
	}
	newDecoder(root, &p).Decode(&job)
	return job, p.All(file).Err()
}
