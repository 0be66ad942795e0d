package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strconv"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxName is the maximum length of a name on common file systems, in bytes.
const maxName = 255

// nameTable chooses a name on disk for each path of the archive. Paths that some file system treats
// as equal, because they differ only in case or Unicode form, get different names, because the
// directory may be copied there.
type nameTable struct {
	safe   func(string) string       // may be nil
	onDisk func(dir string) []string // the names in a directory before anything was written to it
	listed map[string]bool           // directories whose names on disk are in taken
	chosen map[string]string         // path in the archive -> path on disk
	taken  map[string]string         // folded path on disk -> the path in the archive that owns it, or ""
	next   map[string]int            // folded path -> the suffix to try next
}

// newNameTable returns a table in which each path of reserved keeps its name, even if a colliding
// path comes before it in the archive.
func newNameTable(safe func(string) string, reserved []string, onDisk func(dir string) []string) nameTable {
	t := nameTable{
		safe: safe, onDisk: onDisk, listed: map[string]bool{}, chosen: map[string]string{}, taken: map[string]string{}, next: map[string]int{},
	}
	for _, name := range reserved {
		for ; name != "." && name != "/" && name != ""; name = path.Dir(name) {
			t.taken[fold(name)] = name
		}
	}
	return t
}

// name returns the path on disk, below parent, for the entry element, whose path in the archive is
// original. It also reports whether the last element was renamed. The same original always gets the
// same name.
func (t *nameTable) name(parent, original, element string) (string, bool) {
	if on, ok := t.chosen[original]; ok {
		return on, false // reported before
	}
	t.list(parent)
	wanted := element
	if t.safe != nil {
		wanted = plain(t.safe(element))
	}
	wanted = shorten(wanted)
	key := fold(path.Join(parent, wanted))
	name, on := wanted, path.Join(parent, wanted)
	for n := max(2, t.next[key]); !t.free(original, on); n++ {
		name = shorten(wanted + "~" + strconv.Itoa(n))
		on = path.Join(parent, name)
		t.next[key] = n + 1
	}
	t.taken[fold(on)] = original
	t.chosen[original] = on
	return on, name != element
}

// free reports whether the path on disk is unused, or reserved for the one in the archive.
func (t *nameTable) free(original, on string) bool {
	owner, taken := t.taken[fold(on)]
	return !taken || owner == original && on == original
}

// list records the existing names of a directory. An archive's path equal to an existing one is no
// collision.
func (t *nameTable) list(dir string) {
	if t.listed[dir] {
		return
	}
	t.listed[dir] = true
	for _, name := range t.onDisk(dir) {
		on := path.Join(dir, name)
		if _, taken := t.taken[fold(on)]; !taken {
			t.taken[fold(on)] = on
		}
	}
}

// fold maps paths that some file system treats as equal to one form, by case and Unicode's
// compatibility forms.
func fold(name string) string {
	ascii := true
	for i := 0; i < len(name) && ascii; i++ {
		ascii = name[i] < 0x80
	}
	if ascii {
		return strings.ToLower(name)
	}
	return norm.NFKC.String(cases.Fold().String(norm.NFKD.String(name)))
}

// plain ensures that a name is one path element, whatever SafeName returned.
func plain(name string) string {
	name = strings.ReplaceAll(name, "/", "_")
	if name == "" || name == "." || name == ".." {
		return "_"
	}
	return name
}

// shorten cuts names that are too long and makes them unique with a hash.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "~" + hex.EncodeToString(sum[:4])
	return strings.ToValidUTF8(name[:maxName-len(tail)], "") + tail
}
