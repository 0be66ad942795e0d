package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strconv"
	"strings"
)

// maxName is the longest name that common file systems accept, in bytes.
const maxName = 255

// nameTable chooses names on disk, each for one path of the archive. Paths that differ only in case
// get different names, for the folder may be carried to a file system that ignores case.
type nameTable struct {
	safe   func(string) string // may be nil
	chosen map[string]string   // path in the archive -> path on disk
	taken  map[string]bool     // lower-cased paths on disk
	next   map[string]int      // lower-cased path that was wanted -> the suffix to try next
}

func newNameTable(safe func(string) string) nameTable {
	return nameTable{safe: safe, chosen: map[string]string{}, taken: map[string]bool{}, next: map[string]int{}}
}

// name is the path on disk, below parent, for the entry element, whose path in the archive is
// original; and whether its last element is another one than in the archive. The same original
// always has the same name.
func (t *nameTable) name(parent, original, element string) (string, bool) {
	if on, ok := t.chosen[original]; ok {
		return on, false // told before, if need be
	}
	wanted := element
	if t.safe != nil {
		wanted = plain(t.safe(element))
	}
	wanted = shorten(wanted)
	key := strings.ToLower(path.Join(parent, wanted))
	name, on := wanted, path.Join(parent, wanted)
	for n := max(2, t.next[key]); t.taken[strings.ToLower(on)]; n++ {
		name = shorten(wanted + "~" + strconv.Itoa(n))
		on = path.Join(parent, name)
		t.next[key] = n + 1
	}
	t.taken[strings.ToLower(on)] = true
	t.chosen[original] = on
	return on, name != element
}

// plain makes sure that a name is one path element, whatever SafeName returned.
func plain(name string) string {
	name = strings.ReplaceAll(name, "/", "_")
	if name == "" || name == "." || name == ".." {
		return "_"
	}
	return name
}

// shorten cuts names that are too long, and keeps them apart by a hash of the whole.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "~" + hex.EncodeToString(sum[:4])
	return strings.ToValidUTF8(name[:maxName-len(tail)], "") + tail
}
