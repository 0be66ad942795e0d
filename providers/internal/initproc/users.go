//go:build linux

package initproc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var errAccount = errors.New("find the image's USER")

// identity is the user that a command runs as.
type identity struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// account has the fields of /etc/passwd that are used.
type account struct {
	name     string
	uid, gid uint32
	home     string
}

// identify parses user[:group], each a name or a number; empty is root. A number need not be in
// /etc/passwd; its group is then 0. Source: Docker's reference for USER.
func identify(user string) (identity, error) {
	name, group, hasGroup := strings.Cut(cmp.Or(user, "0"), ":")
	id, isNumber := parseID(name)
	found, known, err := lookup(name, id, isNumber)
	if err != nil {
		return identity{}, err
	}
	if !known && !isNumber {
		return identity{}, fmt.Errorf("there is no user %q in /etc/passwd", name)
	}
	who := identity{uid: id, home: "/"}
	if known {
		who = identity{uid: found.uid, gid: found.gid, home: cmp.Or(found.home, "/")}
	}
	groups, err := readLines("/etc/group")
	if err != nil {
		return identity{}, err
	}
	if hasGroup {
		who.gid, err = groupID(groups, group)
		return who, err
	}
	for _, fields := range groups {
		gid, ok := parseID(field(fields, 2))
		if ok && known && slices.Contains(strings.Split(field(fields, 3), ","), found.name) {
			who.groups = append(who.groups, gid)
		}
	}
	return who, nil
}

// lookup returns the account with a name or, if isNumber is set, with an id.
func lookup(name string, id uint32, isNumber bool) (account, bool, error) {
	lines, err := readLines("/etc/passwd")
	if err != nil {
		return account{}, false, err
	}
	var byID *account
	for _, fields := range lines {
		uid, ok1 := parseID(field(fields, 2))
		gid, ok2 := parseID(field(fields, 3))
		if !ok1 || !ok2 {
			continue
		}
		a := account{name: fields[0], uid: uid, gid: gid, home: field(fields, 5)}
		if a.name == name {
			return a, true, nil
		}
		if byID == nil && isNumber && uid == id {
			byID = &a
		}
	}
	if byID != nil {
		return *byID, true, nil
	}
	return account{}, false, nil
}

func groupID(groups [][]string, name string) (uint32, error) {
	for _, fields := range groups {
		if gid, ok := parseID(field(fields, 2)); ok && fields[0] == name {
			return gid, nil
		}
	}
	if gid, ok := parseID(name); ok {
		return gid, nil
	}
	return 0, fmt.Errorf("there is no group %q in /etc/group", name)
}

// maxAccountsFile is how much is read of a file like /etc/passwd.
const maxAccountsFile = 4 << 20

// readLines returns the fields of each line of a file like /etc/passwd, or none if it does not
// exist. Commands may have replaced the file: readLines does not wait for a pipe, and it reads a
// limited size.
func readLines(path string) ([][]string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	var lines [][]string
	for scanner := bufio.NewScanner(io.LimitReader(f, maxAccountsFile)); scanner.Scan(); {
		lines = append(lines, strings.Split(scanner.Text(), ":"))
	}
	return lines, nil
}

func field(fields []string, i int) string {
	if i < len(fields) {
		return fields[i]
	}
	return ""
}

// parseID parses a user or group id.
func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && n < math.MaxUint32
}

// withHome returns env with HOME, if it was missing.
func withHome(env []string, home string) []string {
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }) {
		return env
	}
	return append(slices.Clone(env), "HOME="+home)
}

// defaultPath is where programs are looked for without PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath returns the path of a program. It looks in the PATH of env, as a shell in dir would, and
// then in the usual directories.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	path := defaultPath
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	for _, directory := range append(filepath.SplitList(path), filepath.SplitList(defaultPath)...) {
		if !filepath.IsAbs(directory) {
			directory = filepath.Join(dir, directory)
		}
		program := filepath.Join(directory, name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program, nil
		}
	}
	return "", fmt.Errorf("%w: %s, in %s", errNoProgram, name, path)
}
