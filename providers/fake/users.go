package fake

import (
	"fmt"
	"strconv"
	"strings"
)

// Users and groups are what /etc/passwd and /etc/group of the environment say.

// account is a line of one of these files: name, number, and the fields after it.
type account struct {
	name string
	id   int
	rest []string
}

func (m *machine) accounts(path string) []account {
	data, _ := m.readFile(nil, path)
	var all []account
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 3 {
			continue
		}
		if id, err := strconv.Atoi(fields[2]); err == nil {
			all = append(all, account{fields[0], id, fields[3:]})
		}
	}
	return all
}

// number is the id of a name, or a number as it is.
func (m *machine) number(path, name string) (int, error) {
	if id, err := strconv.Atoi(name); err == nil && id >= 0 {
		return id, nil
	}
	for _, a := range m.accounts(path) {
		if a.name == name {
			return a.id, nil
		}
	}
	return 0, fmt.Errorf("%s is not in %s", name, path)
}

func (m *machine) userID(name string) (int, error)  { return m.number("/etc/passwd", name) }
func (m *machine) groupID(name string) (int, error) { return m.number("/etc/group", name) }

func (m *machine) accountName(path string, id int) string {
	for _, a := range m.accounts(path) {
		if a.id == id {
			return a.name
		}
	}
	return strconv.Itoa(id)
}

func (m *machine) userName(id int) string  { return m.accountName("/etc/passwd", id) }
func (m *machine) groupName(id int) string { return m.accountName("/etc/group", id) }

// user is what "name", "uid", "name:group" or "uid:gid" means. The home of a user who is not in
// /etc/passwd is /, and the group is 0.
func (m *machine) user(spec string) (uid, gid int, home string, err error) {
	name, group, _ := strings.Cut(spec, ":")
	if name == "" {
		name = "0"
	}
	if uid, err = m.userID(name); err != nil {
		return 0, 0, "", err
	}
	home = "/"
	for _, a := range m.accounts("/etc/passwd") {
		if a.id == uid && len(a.rest) >= 3 {
			home = a.rest[2]
			gid, _ = strconv.Atoi(a.rest[0])
		}
	}
	if group != "" {
		gid, err = m.groupID(group)
	}
	return uid, gid, home, err
}
