package task

import (
	"bytes"
	_ "embed" // the schema
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft-07, as in the specification) of task.toml, for editors. Load refuses all that it
// refuses, except that a missing version is only a warning, and that tasks written for Harbor may give a size in both
// forms; Load also checks quantities. The error is always nil.
func Schema() ([]byte, error) { return bytes.Clone(schema), nil }
