package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// allLimits are limits that every machine has room for.
var allLimits = environment.Limits{MilliCPUs: 500, Memory: 256 << 20, Storage: 32 << 20, Pids: 40}

func TestUnenforcedLimitsAreReported(t *testing.T) {
	dir := storeDir(t)
	for _, scratch := range choices["scratch"] {
		t.Run("scratch "+scratch, func(t *testing.T) {
			p := newProvider(t, map[string]any{"dir": dir, "base": baseHost, "scratch": scratch})
			var want []string
			for name := range p.groups.Missing() {
				if name != "pids" { // which the kernel counts in a user namespace
					want = append(want, name)
				}
			}
			if p.store.mode == modeRoot && p.groups.Missing()["pids"] != "" {
				want = append(want, "pids")
			}
			if scratch == "disk" {
				want = append(want, "storage")
			}
			slices.Sort(want)
			if got := environment.Unenforced(create(t, p, environment.CreateOptions{Image: testImage, Limits: allLimits})); !slices.Equal(got, want) {
				t.Errorf("not applied are %q, want %q; %v", got, want, p.groups.Missing())
			}
			if got := environment.Unenforced(create(t, p, environment.CreateOptions{Image: testImage})); len(got) > 0 {
				t.Errorf("without limits, %q are not applied", got)
			}
			if os.Geteuid() != 0 && len(want) == 0 && scratch == "disk" {
				t.Error("an ordinary user can limit storage on the disk")
			}
		})
	}
}

func TestStorageInMemoryIsLimited(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost, "scratch": "memory"})
	e := create(t, p, environment.CreateOptions{Image: testImage, Limits: environment.Limits{Storage: allLimits.Storage}})
	got := run(t, e, `head -c 20M /dev/zero > /tmp/fits && echo fits
		head -c 20M /dev/zero 2>&1 > /usr/lib/more || echo full
		rm /usr/lib/more /tmp/fits; head -c 20M /dev/zero > /root/again && echo again; stat -c %s /root/again`)
	if !strings.HasPrefix(got, "fits\n") || !strings.Contains(got, "No space left on device") || !strings.HasSuffix(got, "full\nagain\n20971520\n") {
		t.Errorf("printed\n%s", got)
	}
	if entries, err := os.ReadDir(filepath.Join(p.store.path("env", e.ID()), "memory")); err != nil || len(entries) > 0 {
		t.Errorf("on the disk there is %v, error %v", entries, err)
	}
}

// Where the kernel counts a user's processes, those of other sandboxes and of the machine must not
// count. The conformance suite checks that the limit is enforced.
func TestEachEnvironmentHasItsOwnProcesses(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	limits := environment.Limits{Pids: allLimits.Pids}
	nearly := fmt.Sprintf("for n in {1..%d}; do sleep 1000 > /dev/null 2>&1 & done; set -- /proc/[0-9]*; echo $#", limits.Pids-5)
	for range 3 {
		e := create(t, p, environment.CreateOptions{Image: testImage, Limits: limits})
		if got := run(t, e, nearly); strings.TrimSpace(got) != strconv.FormatInt(limits.Pids-5+2, 10) { // and process 1, and bash
			t.Errorf("processes: %s", got)
		}
	}
}

// A hardened machine makes all files private: sandboxes must not inherit that.
func TestUmaskIsNotInherited(t *testing.T) {
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	p, err := New(t.Context(), map[string]any{"dir": ownStoreDir(t), "base": baseHost}, Options{Hide: []string{shownHostDirs(t)[0]}})
	if environment.KindOf(err) == environment.KindUnavailable {
		t.Skip(err)
	}
	must(t, err)
	ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "umask", Context: fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM any\nRUN mkdir /made && echo > /made/file\n")},
	}})
	must(t, err)
	e := create(t, p, environment.CreateOptions{Image: ref})
	got := run(t, e, "umask; stat -c '%a %n' / /usr /usr/bin /usr/share /etc /etc/hosts /etc/passwd /opt /tmp /root /var /var/lib /dev /proc /made /made/file")
	want := "0022\n755 /\n755 /usr\n755 /usr/bin\n755 /usr/share\n755 /etc\n644 /etc/hosts\n644 /etc/passwd\n755 /opt\n1777 /tmp\n700 /root\n755 /var\n755 /var/lib\n755 /dev\n555 /proc\n755 /made\n644 /made/file\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	var info fs.FileInfo
	if info, err = os.Stat(p.(*Provider).store.dir); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may look into the store: %v, %v", info.Mode(), err)
	}
}
