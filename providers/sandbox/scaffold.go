//go:build linux

package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// hostname is every sandbox's.
const hostname = "rollout"

// makeScaffold makes the layer that lies on every image: where the kernel's file systems are mounted, and the
// files of the network, which are this machine's. It returns its id.
func (s *store) makeScaffold(ctx context.Context, network string) (string, error) {
	files := map[string]string{
		"etc/hostname": hostname + "\n",
		"etc/hosts":    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" + hostname + "\n",
	}
	if network == "host" {
		resolver, err := os.ReadFile("/etc/resolv.conf")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", err
		}
		files["etc/resolv.conf"] = string(resolver)
	} else {
		files["etc/resolv.conf"] = ""
	}
	id := digest("scaffold 1" + files["etc/hosts"] + files["etc/resolv.conf"])
	err := s.layer(ctx, id, func(dir string) error {
		root := filepath.Join(dir, rootPart)
		for _, name := range []string{"", "etc", "dev", "proc", "sys"} {
			if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
				return err
			}
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
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
