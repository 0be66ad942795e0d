package trajectory

import (
	"encoding/json"
	"slices"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// Extras holds fields that the format does not define. Decoded values are strings, numbers,
// booleans or null; lists, objects and long strings stay encoded, as json.RawMessage. An agent may
// write megabytes of them, which take no more memory than their text.
type Extras map[string]any

// Tools are definitions of tools. Those that were read are json.RawMessage.
type Tools []any

// maxScalar is the maximum length of a value of Extras that is decoded, in bytes.
const maxScalar = 4 << 10

// UnmarshalJSON keeps values that could take much memory encoded.
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

// UnmarshalJSON keeps each definition encoded.
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
