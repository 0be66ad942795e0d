package cgroup

import (
	"fmt"
	"reflect"
	"testing"
)

func TestParseMounts(t *testing.T) {
	got := parseMounts(`24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:5 - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw master:3 propagate_from:2 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /mnt/a\040b\134c rw - cgroup2 cgroup2 rw,nsdelegate
broken line
34 31 0:31 / - cgroup cgroup rw,memory
`)
	want := []mount{
		{root: "/docker/ab", point: "/sys/fs/cgroup/cpu,cpuacct", controllers: []string{"rw", "cpu", "cpuacct"}},
		{root: "/", point: `/mnt/a b\c`, unified: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseOwn(t *testing.T) {
	got := parseOwn("5:cpu,cpuacct:/a\n1:name=systemd:/b:c\n0::/user.slice\nbroken\n")
	want := map[string]string{"cpu": "/a", "cpuacct": "/a", "name=systemd": "/b:c", "": "/user.slice"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCandidates(t *testing.T) {
	for _, tc := range []struct{ name, root, own, want string }{
		{"the own group is below", "/", "/a/b", "[/p /p/a/b]"},
		{"the own group is the root", "/", "/", "[/p]"},
		{"a container sees a part", "/docker/x", "/docker/x/y", "[/p /p/y]"},
		{"the own group is not to be seen", "/docker/x", "/docker/xy", "[/p]"},
		{"the own group is outside of the namespace", "/", "/../../a", "[/p]"},
		{"the hierarchy is not known", "/", "", "[/p]"},
		{"an earlier run moved the process", "/", "/a/rollout-self", "[/p /p/a]"},
	} {
		got := fmt.Sprint(candidateDirs(mount{root: tc.root, point: "/p"}, tc.own, "rollout-self"))
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
