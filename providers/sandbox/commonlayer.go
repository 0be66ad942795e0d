//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostname is the host name in every sandbox.
const hostname = "rollout"

// makeCommonLayer makes the layer that is on top of every image, and returns its id. It has the
// mount points of the kernel's file systems and the network's files, which are based on this
// machine's.
func (s *store) makeCommonLayer(ctx context.Context, network string) (string, error) {
	files := map[string]string{
		"etc/hostname": hostname + "\n",
		"etc/hosts":    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" + hostname + "\n",
	}
	if network != networkNone {
		resolver, err := os.ReadFile("/etc/resolv.conf")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", err
		}
		files["etc/resolv.conf"] = string(resolver)
		if network == networkOwn {
			files["etc/resolv.conf"] = resolverFor(string(resolver))
		}
	} else {
		files["etc/resolv.conf"] = ""
	}
	return s.fixedLayer(ctx, "scaffold 2", []string{"etc", "dev", "proc", "sys"}, files)
}

// resolverFor returns this machine's resolv.conf with the sandbox's name server, which forwards to
// the machine's.
func resolverFor(machine string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "nameserver %s\n", nameServer)
	for line := range strings.Lines(machine) {
		if fields := strings.Fields(line); len(fields) > 1 && slices.Contains([]string{"search", "domain", "options"}, fields[0]) {
			out.WriteString(strings.Join(fields, " ") + "\n")
		}
	}
	return out.String()
}

// aptConfiguration is the configuration directory of Debian's package manager.
const aptConfiguration = "etc/apt/apt.conf.d"

// makeAptLayer makes the layer for images with Debian's package manager in modeOne, and returns its
// id. The package manager would otherwise switch to a user that does not exist.
func (s *store) makeAptLayer(ctx context.Context) (string, error) {
	return s.fixedLayer(ctx, "apt 1", []string{"etc", "etc/apt", aptConfiguration}, map[string]string{
		aptConfiguration + "/99rollout": "APT::Sandbox::User \"root\";\n",
	})
}

// fixedLayer makes a layer of directories and files, unless it exists, and returns its id. kind
// distinguishes it from other layers with the same files.
func (s *store) fixedLayer(ctx context.Context, kind string, dirs []string, files map[string]string) (string, error) {
	content := kind
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content += "\n" + name + "\n" + files[name]
	}
	id := digest(content)
	err := s.layer(ctx, id, func(dir string) error {
		root := filepath.Join(dir, rootPart)
		for _, name := range append([]string{""}, dirs...) {
			if err := makeDir(filepath.Join(root, name), 0o755); err != nil {
				return err
			}
		}
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chmod(path, 0o644)); err != nil {
				return err
			}
		}
		return nil
	})
	return id, err
}

// layer makes the layer with this id, unless it exists. fill writes its files.
func (s *store) layer(ctx context.Context, id string, fill func(dir string) error) error {
	if exists(s.path("l", id)) {
		return nil
	}
	unlock, err := s.lock(ctx, "l-"+id[:2])
	if err != nil {
		return err
	}
	defer unlock()
	if exists(s.path("l", id)) {
		return nil
	}
	d, err := s.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	if err := fill(d.dir); err != nil {
		return err
	}
	if err := syncLayer(d.dir); err != nil {
		return err
	}
	return s.publish(d.dir, s.path("l", id))
}
