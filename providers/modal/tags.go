package modal

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// Tags of sandboxes. Modal does not say which characters a value may have, nor how long it may be:
// the labels are one text of letters, digits, "-" and "_", in parts.
const (
	tagOurs   = "rollout"
	tagKept   = "rollout-kept"
	tagLabels = "rollout-labels-" // and a number
	tagPart   = 200               // bytes of a part
)

// tagsOf returns the tags of a sandbox with labels.
func tagsOf(l environment.Labels) map[string]string {
	text, _ := json.Marshal(l.Map()) // strings always have a form in JSON
	rest := base64.RawURLEncoding.EncodeToString(text)
	tags := map[string]string{tagOurs: "1"}
	for i := 0; rest != ""; i++ {
		n := min(len(rest), tagPart)
		tags[fmt.Sprintf("%s%d", tagLabels, i)] = rest[:n]
		rest = rest[n:]
	}
	return tags
}

// labelsOf returns the labels of a sandbox with tags, as far as they can be read.
func labelsOf(tags map[string]string) environment.Labels {
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
