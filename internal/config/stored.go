package config

import (
	"reflect"
)

// Stored is the configuration in a job's config.json, for a comparison with another one: defaults are filled in, but nothing is
// expanded, and neither datasets nor providers need to be there. file is its name for messages. The error is a diag.List.
func Stored(file string, data []byte) (Job, error) {
	var p problems
	var job Job
	src := source{file: file, data: data, json: true}
	root := src.parse(&p)
	if root == nil {
		return job, p.all(file)
	}
	d := newDecoder(&p)
	d.decode(root, nil, reflect.ValueOf(&job).Elem(), rules{})
	return job, p.all(file).Err()
}
