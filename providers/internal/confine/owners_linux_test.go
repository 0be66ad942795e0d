package confine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// single returns the place with one id.
func single() place {
	all := places()
	return all[len(all)-1]
}

func TestOwnersAreFakedWhereAskedFor(t *testing.T) {
	p := single()
	for _, tc := range []struct{ name, script string }{
		{"chown", "chown 33:33 f"},
		{"chown of a link", "ln -s f l; chown -h 33:33 l"},
		{"chgrp of a tree", "mkdir d; touch d/f; chgrp -R 42 d"},
		{"install", "install -o 33 -g 33 -m 600 f g; test -f g"},
		{"emptying the groups", "setpriv --clear-groups true"},
		{"su to root", "su root -s /bin/sh -c true"},
		{"unpacking what others own", "tar -xf a.tar; test -f foreign"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := p.writableDir(t)
			archive := `tar -cf a.tar --owner=33 --group=33 --transform=s/f/foreign/ f; `
			argv := []string{"bash", "-c", `cd "$0" && touch f && ` + archive + `set -e; ` + tc.script, dir}
			if r := p.free(t, argv...); r.code == 0 {
				t.Errorf("it works without help, so this tells nothing")
			}
			if r := p.confined(t, Options{}, argv...); r.code == 0 {
				t.Errorf("it is faked though nobody asked")
			}
			p.confined(t, Options{FakeOwners: true}, append(argv[:3:3], p.writableDir(t))...).want(t, "")
		})
	}
}

func TestUsersAreNotFaked(t *testing.T) {
	p := single()
	r := p.confined(t, Options{FakeOwners: true}, "su", userName(t, "65534"), "-s", "/bin/sh", "-c", "id -u; echo ran")
	if r.code == 0 || strings.Contains(r.stdout, "ran") {
		t.Errorf("su to a user that there is not ran the command: exit code %d, %q", r.code, r.stdout)
	}
	r = p.confined(t, Options{FakeOwners: true}, "role:ids")
	var got map[string]string
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v in %q\n%s", err, r.stdout, r.stderr)
	}
	for call, errno := range got {
		if errno != unix.ErrnoName(unix.EINVAL) {
			t.Errorf("%s to an id that is not mapped: %s", call, errno)
		}
	}
	if len(got) < 6 {
		t.Errorf("only %d calls were tried", len(got))
	}
}

// tryIDs prints how changes to an id that is not mapped end, on this thread.
func tryIDs([]string) error {
	const id, keep = 33, ^uintptr(0)
	got := map[string]string{}
	for name, c := range map[string][4]uintptr{
		"setuid":    {unix.SYS_SETUID, id},
		"setgid":    {unix.SYS_SETGID, id},
		"setreuid":  {unix.SYS_SETREUID, id, keep},
		"setregid":  {unix.SYS_SETREGID, id, keep},
		"setresuid": {unix.SYS_SETRESUID, id, id, id},
		"setresgid": {unix.SYS_SETRESGID, id, id, id},
	} {
		_, _, errno := unix.RawSyscall(c[0], c[1], c[2], c[3])
		got[name] = unix.ErrnoName(errno)
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

func TestDevicesAreNotFaked(t *testing.T) {
	p := single()
	dir := p.writableDir(t)
	if r := p.confined(t, Options{FakeOwners: true}, "mknod", filepath.Join(dir, "null"), "c", "1", "3"); r.code == 0 {
		t.Error("mknod of a device seemed to work")
	}
	p.confined(t, Options{FakeOwners: true}, "mkfifo", filepath.Join(dir, "pipe")).want(t, "")
}
