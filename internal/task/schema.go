package task

import (
	"bytes"
	_ "embed" // the schema
)

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (draft-07, as in the specification) of task.toml, for editors. What it
// refuses, Load refuses too, except that a missing version is only a warning there, and that tasks made for Harbor
// may give a size in both forms; Load also reads quantities. The error is always nil.
func Schema() ([]byte, error) { return bytes.Clone(schema), nil }
