package cgroup

import (
	"path/filepath"
	"slices"
	"strings"
)

// mount is a mounted cgroup hierarchy.
type mount struct {
	root        string // the group that is mounted at point
	point       string
	unified     bool     // version 2
	controllers []string // of version 1
}

// parseMounts returns the hierarchies in the text of a mountinfo file, in its order. It skips lines
// of another form.
// Source: man 5 proc_pid_mountinfo.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		before, after, found := strings.Cut(strings.TrimSpace(line), " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if !found || len(where) < 6 || len(what) < 3 {
			continue
		}
		m := mount{root: unescape(where[3]), point: unescape(where[4]), unified: what[0] == "cgroup2"}
		switch what[0] {
		case "cgroup":
			m.controllers = strings.Split(what[2], ",")
		case "cgroup2":
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}

// unescape decodes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// parseOwn returns the process's group for each controller of version 1, and its group of version 2
// under "", from the text of /proc/self/cgroup. Source: man 7 cgroups.
func parseOwn(text string) map[string]string {
	own := make(map[string]string)
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	return own
}

// candidateDirs returns the directories in m in which groups might be made: the root of the mount,
// and the process's own group if it is visible there. leaf is the name of the group to which an
// earlier run may have moved the process; its parent is then the process's own group.
func candidateDirs(m mount, own, leaf string) []string {
	out := []string{m.point}
	if strings.HasPrefix(own, "/..") || strings.HasPrefix(m.root, "/..") {
		return out // outside of the cgroup namespace
	}
	if filepath.Base(own) == leaf {
		own = filepath.Dir(own)
	}
	rel, err := filepath.Rel(m.root, own)
	if own == "" || err != nil || !filepath.IsLocal(rel) {
		return out
	}
	return slices.Compact(append(out, filepath.Join(m.point, rel)))
}
