package trajectory

import (
	"encoding/json"
	"slices"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// Extras has what the format does not name. Values that were read are strings, numbers, booleans or
// null; lists, objects and long strings stay as they are written, as json.RawMessage. An agent may
// write megabytes of them, which take no more memory than their text.
type Extras map[string]any

// Tools are definitions of tools. Those that were read are json.RawMessage.
type Tools []any

// maxScalar is how long a value of Extras is that is decoded, in bytes.
const maxScalar = 4 << 10

// UnmarshalJSON keeps values that could take much memory as they are written.
func (e *Extras) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := bounded.Unmarshal(text, &raw); err != nil {
		return err
	}
	*e = nil
	if raw != nil {
		*e = make(Extras, len(raw))
	}
	for key, value := range raw {
		if len(value) > maxScalar || slices.Contains([]byte("[{"), value[0]) {
			(*e)[key] = value
			continue
		}
		var scalar any
		if err := bounded.Unmarshal(value, &scalar); err != nil {
			return err
		}
		(*e)[key] = scalar
	}
	return nil
}

// UnmarshalJSON keeps each definition as it is written.
func (t *Tools) UnmarshalJSON(text []byte) error {
	var raw []json.RawMessage
	if err := bounded.Unmarshal(text, &raw); err != nil {
		return err
	}
	*t = nil
	for _, value := range raw {
		*t = append(*t, value)
	}
	return nil
}
