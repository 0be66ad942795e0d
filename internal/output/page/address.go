package page

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Address returns the name in addresses of a job: the names of the directories and of the archive
// on the way to it, and its own, with tildes between them. What addresses and file systems treat in
// a special way is written as %XX, the tilde and the percent sign too, so that no two jobs share a
// name.
func Address(names ...string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte('~')
		}
		for len(name) > 0 {
			r, size := utf8.DecodeRuneInString(name)
			if r == utf8.RuneError && size == 1 || r < ' ' || r == 0x7f || strings.ContainsRune(`%~\/`, r) {
				fmt.Fprintf(&b, "%%%02X", name[0])
			} else {
				b.WriteString(name[:size])
			}
			name = name[size:]
		}
	}
	return b.String()
}

// Names returns the names that an address was made of; nil if Address returns no such address.
func Names(address string) []string {
	names := strings.Split(address, "~")
	for i, name := range names {
		text, err := url.PathUnescape(name)
		if err != nil || text == "" {
			return nil
		}
		names[i] = text
	}
	if Address(names...) != address {
		return nil
	}
	return names
}

// shardsMark is in the addresses of shards that are shown as one job; Address never returns it.
const shardsMark = "~~"

// ShardsAddress returns the name in addresses of the shards of a job that are shown as one. key
// tells it from others of the same name.
func ShardsAddress(job, key string) string { return Address(job) + shardsMark + key }

// IsShards reports whether ShardsAddress returned an address.
func IsShards(address string) bool { return strings.Contains(address, shardsMark) }

// shownName returns the displayed name of a job, from its name in addresses.
func shownName(address string) string {
	address, _, shards := strings.Cut(address, shardsMark)
	names := Names(address)
	if names == nil {
		return name(address)
	}
	shown := name(strings.Join(names, "/"))
	if shards {
		shown += " (its shards)"
	}
	return shown
}

// Part is a shard of a job that is shown as one.
type Part struct {
	Number int    // from 1
	Name   string // in addresses
}

// Parts are the shards of a job that are shown as one.
type Parts struct {
	List  []Part // by number
	Total int
}

// Says says which shards are there, and which are missing.
func (p Parts) Says() string {
	here := map[int]bool{}
	for _, part := range p.List {
		here[part.Number] = true
	}
	var missing []string
	for n := 1; n <= p.Total && len(missing) < maxList; n++ {
		if !here[n] {
			missing = append(missing, strconv.Itoa(n))
		}
	}
	text := fmt.Sprintf("%d of %d shards", len(here), p.Total)
	if len(here) == p.Total {
		text = fmt.Sprintf("all %d shards", p.Total)
	}
	switch more := p.Total - len(here) - len(missing); {
	case more > 0:
		text += fmt.Sprintf(", without %s and %d more", strings.Join(missing, ", "), more)
	case len(missing) > 0:
		text += ", without " + strings.Join(missing, ", ")
	}
	return text
}
