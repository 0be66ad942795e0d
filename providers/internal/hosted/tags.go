package hosted

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// Tags of sandboxes.
const (
	TagOurs   = "rollout" // its value is "1"
	TagKept   = "rollout-kept"
	tagLabels = "rollout-labels-" // and a number
)

// TagPart is the longest value of a tag, in bytes. Services do not say which characters a value may
// have, nor how long it may be: the labels are one text of letters, digits, "-" and "_", in parts.
const TagPart = 200

// TagsOf returns the tags of a sandbox with labels.
func TagsOf(l environment.Labels) map[string]string {
	text, _ := json.Marshal(l.Map()) // strings always have a form in JSON
	rest := base64.RawURLEncoding.EncodeToString(text)
	tags := map[string]string{TagOurs: "1"}
	for i := 0; rest != ""; i++ {
		n := min(len(rest), TagPart)
		tags[fmt.Sprintf("%s%d", tagLabels, i)] = rest[:n]
		rest = rest[n:]
	}
	return tags
}

// LabelsOf returns the labels of a sandbox with tags, as far as they can be read.
func LabelsOf(tags map[string]string) environment.Labels {
	var text strings.Builder
	for i := 0; tags[fmt.Sprintf("%s%d", tagLabels, i)] != ""; i++ {
		text.WriteString(tags[fmt.Sprintf("%s%d", tagLabels, i)])
	}
	labels := map[string]string{}
	if decoded, err := base64.RawURLEncoding.DecodeString(text.String()); err == nil {
		_ = json.Unmarshal(decoded, &labels) // those of others have none
	}
	return environment.ParseLabels(labels)
}
