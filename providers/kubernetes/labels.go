package kubernetes

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// Labels of pods. Their values have few characters, so the environment's own labels are
// annotations, in full, and these are for selecting.
const (
	labelPrefix  = "rollout."
	labelRun     = labelPrefix + "run"  // a random text for each Provider
	labelRole    = labelPrefix + "role" // one of the roles below
	labelNetwork = labelPrefix + "network"
	labelJob     = environment.LabelJob // shortened
	labelTrial   = labelPrefix + "trial"

	annotationKept = labelPrefix + "kept"
)

// The roles of pods.
const (
	roleTrial  = "trial"
	roleTarget = "network-target" // see enforcement
	roleProbe  = "network-probe"
	// roleOriginal is for reading the files of an image. See podEnv.withOriginal.
	roleOriginal = "original"
)

// The values of labelNetwork.
const (
	networkOpen       = "open"
	networkRestricted = "restricted"
	// networkProof is that of the pods of the proof that are not restricted: no policy of Rollout's
	// is for them.
	networkProof = "proof"
)

// isOurs reports whether a key of labels or annotations may only be set by Rollout.
func isOurs(key string) bool { return strings.HasPrefix(key, labelPrefix) }

// maxLabel is the longest value of a label.
const maxLabel = 63

// labelValue returns a text as the value of a label: unchanged if it is valid, otherwise without
// the invalid characters, and with a digest of the text.
func labelValue(text string) string {
	short := safeText(text, maxLabel, "._-", false)
	if short == text {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	digest := hex.EncodeToString(sum[:4])
	return strings.TrimLeft(safeText(text, maxLabel-len(digest)-1, "._-", false)+"-"+digest, "-")
}

// safeText returns at most limit bytes of a text in which runs of characters other than letters,
// digits and those in also are one "-". It begins and ends with a letter or digit; it is empty if
// there is none.
func safeText(text string, limit int, also string, lower bool) string {
	var b strings.Builder
	if lower {
		text = strings.ToLower(text)
	}
	gap := false
	for _, r := range text {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !plain && (!strings.ContainsRune(also, r) || r > 0x7f) {
			gap = true
			continue
		}
		if b.Len() == 0 && !plain {
			gap = false
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		if b.Len() >= limit {
			break
		}
		b.WriteRune(r)
	}
	out := b.String()
	out = out[:min(len(out), limit)]
	return strings.TrimRight(out, "-._")
}

// podName returns a new name, which users can read, and which no other pod has. It can be a host
// name.
func podName(l environment.Labels) string {
	const random = 10
	name := "rollout-"
	for _, part := range []string{l.Job, l.Trial} {
		if text := safeText(part, 20, "", true); text != "" {
			name += text + "-"
		}
	}
	return name + strings.ToLower(rand.Text()[:random])
}

// podLabels returns the labels of a pod, with those of the configuration.
func (p *Provider) podLabels(l environment.Labels, role string, network environment.Network) map[string]string {
	labels := maps.Clone(p.config.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelRun], labels[labelRole], labels[labelNetwork] = p.run, role, networkLabel(network)
	labels[labelJob], labels[labelTrial] = labelValue(l.Job), labelValue(l.Trial)
	return labels
}

// podAnnotations returns the annotations of a pod, with those of the configuration.
func (p *Provider) podAnnotations(l environment.Labels) map[string]string {
	annotations := l.Map()
	maps.Copy(annotations, p.config.annotations)
	return annotations
}

func networkLabel(n environment.Network) string {
	if n.Public() {
		return networkOpen
	}
	return networkRestricted
}
