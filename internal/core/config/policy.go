package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/fields"
)

// GateKey is a key of gate with a single value, which has a flag.
type GateKey struct {
	Key string // as in the job file: min_pass_rate
	Doc string
	// Alone is the value of the flag without one; "": the flag needs a value. A flag with it
	// decides which trials run, and only the command run has it.
	Alone string
}

// Flag returns the name of the key's flag: min-pass-rate.
func (k GateKey) Flag() string {
	switch k.Key {
	case confirmAttempts:
		return "confirm" // the number that people mean by it
	case "mode", "until": // which say nothing without their place
		return "gate-" + k.Key
	case "stop":
		return "stop-early"
	}
	return strings.ReplaceAll(k.Key, "_", "-")
}

// confirmAttempts is the key of gate.confirm that has a flag.
const confirmAttempts = "confirm.attempts"

// GateKeys returns the keys of gate with a single value, and confirm.attempts, in the order of the
// documentation.
func GateKeys() []GateKey {
	var out []GateKey
	for _, r := range fields.Of(reflect.TypeFor[gate.Policy]()) {
		switch r.Type.Kind() {
		case reflect.Slice, reflect.Struct, reflect.Map:
		default:
			k := GateKey{Key: r.Key, Doc: r.Doc}
			if k.Key == "stop" {
				k.Alone = string(gate.StopEarly)
			}
			out = append(out, k)
		}
	}
	for _, r := range fields.Of(reflect.TypeFor[gate.Confirm]()) {
		if "confirm."+r.Key == confirmAttempts {
			out = append(out, GateKey{Key: confirmAttempts, Doc: r.Doc})
		}
	}
	return out
}

// Policy returns the gate of a job that has run: the key gate of its config.json, changed by
// overrides (whose paths begin with "gate."). It reads nothing else, so the job's datasets need not
// exist. file is the name for messages; empty data means a job without a gate. The error is a
// diag.List.
func Policy(file string, data []byte, overrides []Override) (gate.Policy, error) {
	var p fields.Problems
	root := gateOnly(file, data, &p)
	if root == nil {
		return gate.Policy{}, p.List
	}
	for _, o := range overrides {
		apply(root, o, &p)
	}
	var out struct {
		Gate gate.Policy `yaml:"gate" json:"gate"`
	}
	d := newDecoder(root, &p)
	d.Decode(&out)
	gateCheck{d, out.Gate}.check()
	return out.Gate, p.All(file).Err()
}

// gateOnly parses config.json and keeps only the key gate, with its positions; it returns nil after
// a problem.
func gateOnly(file string, data []byte, p *fields.Problems) *fields.Node {
	if len(data) == 0 {
		data = []byte("{}")
	}
	root := parseJSON(file, data, p)
	switch {
	case root == nil && len(p.List) > 0:
		return nil
	case root == nil || root.Kind != fields.Mapping:
		p.Add(fields.Place{File: file}, "Rollout writes it at the start of a job; is this another file?", "is not the "+result.ConfigFile+" of a job")
		return nil
	}
	root.Fields = slices.DeleteFunc(root.Fields, func(f *fields.Field) bool { return f.Name != "gate" })
	return root
}
