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

// hostname is every sandbox's.
const hostname = "rollout"

// makeScaffold makes the layer that lies on every image: where the kernel's file systems are mounted, and the
// files of the network, which follow this machine's. It returns its id.
func (s *store) makeScaffold(ctx context.Context, network string) (string, error) {
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

// resolverFor is this machine's configuration of names with the sandbox's name server in place of the machine's, which that one asks.
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

// aptConfiguration is where Debian's package manager has a folder of configuration.
const aptConfiguration = "etc/apt/apt.conf.d"

// makeAptLayer makes the layer that lies on images with Debian's package manager, where there is one id: it gives up
// its rights for a user that does not exist then.
func (s *store) makeAptLayer(ctx context.Context) (string, error) {
	return s.fixedLayer(ctx, "apt 1", []string{"etc", "etc/apt", aptConfiguration}, map[string]string{
		aptConfiguration + "/99rollout": "APT::Sandbox::User \"root\";\n",
	})
}

// fixedLayer makes a layer of these folders and files, unless it is there, and returns its id. The kind tells it from
// other layers with the same files.
func (s *store) fixedLayer(ctx context.Context, kind string, folders []string, files map[string]string) (string, error) {
	content := kind
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content += "\n" + name + "\n" + files[name]
	}
	id := digest(content)
	err := s.layer(ctx, id, func(dir string) error {
		root := filepath.Join(dir, rootPart)
		for _, name := range append([]string{""}, folders...) {
			if err := makeFolder(filepath.Join(root, name), 0o755); err != nil {
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

// layer has the layer with this id made, unless it is there.
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
