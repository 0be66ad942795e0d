package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/gate"
)

// GateKey is a key of gate that has one value, for who makes a flag of each.
type GateKey struct {
	Key string // as in the job file: min_pass_rate
	Doc string
}

// Flag is the key as a flag's name: min-pass-rate.
func (k GateKey) Flag() string { return strings.ReplaceAll(k.Key, "_", "-") }

// GateKeys are the keys of gate that have one value, in the order of the documentation.
func GateKeys() []GateKey {
	var keys []GateKey
	for _, r := range rulesOf(reflect.TypeFor[gate.Policy]()) {
		if r.typ.Kind() != reflect.Slice && r.typ.Kind() != reflect.Struct {
			keys = append(keys, GateKey{Key: r.key, Doc: r.doc})
		}
	}
	return keys
}

// Policy is the gate of a job that has run: the key gate of its config.json, changed by overrides (of paths that begin
// with "gate."). Nothing else in the file is looked at, so the job's datasets need not be there. file is its
// name for messages; an empty data stands for a job without a gate. The error is a diag.List.
func Policy(file string, data []byte, overrides []Override) (gate.Policy, error) {
	var p problems
	root := gateOnly(file, data, &p)
	if root == nil {
		return gate.Policy{}, p.list
	}
	for _, o := range overrides {
		apply(root, o, &p)
	}
	var out struct {
		Gate gate.Policy `yaml:"gate" json:"gate"`
	}
	d := newDecoder(&p)
	d.decode(root, nil, reflect.ValueOf(&out).Elem(), rules{})
	c := &checker{decoder: d, root: root}
	c.out.Job.Gate = out.Gate
	c.gate()
	return out.Gate, p.all(file).Err()
}

// gateOnly is a config.json with no key but gate, whose places in the file it keeps; nil after a problem.
func gateOnly(file string, data []byte, p *problems) *node {
	if len(data) == 0 {
		data = []byte("{}")
	}
	root := parseJSON(file, data, p)
	switch {
	case root == nil && len(p.list) > 0:
		return nil
	case root == nil || root.kind != mapping:
		p.add(origin{file: file}, "it is written when a job begins; is this another file?", "is not the config.json of a job")
		return nil
	}
	root.fields = slices.DeleteFunc(root.fields, func(f *field) bool { return f.name != "gate" })
	return root
}
