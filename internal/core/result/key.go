package result

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key identifies a trial: one attempt of one agent at one task of one dataset. Directories are
// named by it; sorting, sharding, finding duplicates and matching a baseline use it. Attempt counts
// from 1.
type Key struct {
	Task    string `json:"task_name"`
	Dataset string `json:"dataset_name"`
	Agent   string `json:"agent_name"`
	Attempt int    `json:"attempt"`
}

// Compare orders keys by agent, dataset, task and attempt. It stops at the first difference,
// which cmp.Or does not: sorting the trials of a large job takes millions of calls.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Agent, o.Agent); c != 0 {
		return c
	}
	if c := strings.Compare(k.Dataset, o.Dataset); c != 0 {
		return c
	}
	if c := strings.Compare(k.Task, o.Task); c != 0 {
		return c
	}
	return cmp.Compare(k.Attempt, o.Attempt)
}

// String returns agent/dataset/task__attempt with the names unchanged, for messages.
func (k Key) String() string {
	return fmt.Sprintf("%s/%s/%s__%d", k.Agent, k.Dataset, k.Task, k.Attempt)
}

// Dir returns the trial's directory below the job's, with forward slashes and safe names (see
// Slug).
func (k Key) Dir() string {
	return Slug(k.Agent) + "/" + Slug(k.Dataset) + "/" + Slug(k.Task) + "__" + strconv.Itoa(k.Attempt)
}

// maxSlug leaves room for "__<attempt>" below the 255 bytes that file systems allow.
const maxSlug = 200

// Slug returns a name as one path element that every file system and GitHub's artifact upload
// accept: none of " : < > | * ? / \, no control or format characters, no leading dot, no trailing
// dot or space, at most 200 bytes (longer names are cut and given a hash). Names that are already
// safe are returned unchanged. Different names may have the same slug; callers check.
// Source: actions/toolkit, path-and-artifact-name-validation.ts.
func Slug(name string) string {
	if plainName(name) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		switch {
		case strings.ContainsRune("\":<>|*?/\\", r), unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			b.WriteByte('-')
		default:
			b.WriteRune(r)
		}
	}
	slug := strings.TrimRight(b.String(), ". ")
	if strings.HasPrefix(slug, ".") {
		slug = "-" + slug[1:]
	}
	if slug == "" {
		return "-"
	}
	if len(slug) <= maxSlug {
		return slug
	}
	sum := sha256.Sum256([]byte(name))
	cut := slug[:maxSlug-9]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut + "-" + hex.EncodeToString(sum[:4])
}

// plainName reports whether a name is its own slug because it has only letters, digits, "-", "_"
// and inner dots, as most have.
func plainName(name string) bool {
	if name == "" || len(name) > maxSlug || name[0] == '.' || name[len(name)-1] == '.' {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
