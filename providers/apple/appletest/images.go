package appletest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// architecture is that of containers.
const architecture = runtime.GOARCH

// Platform is that of containers.
const Platform = "linux/" + architecture

// known returns the name that an image has in imagestest.Images.
func (s *Service) known(ref string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if built := s.tags[ref]; built != "" {
		return built
	}
	return ref
}

// local returns the name of an image that is here.
func (s *Service) local(i *invocation, ref string) (string, error) {
	name := s.known(ref)
	_, err := s.images.Config(i.ctx, name)
	s.mu.Lock()
	remote := s.remote[ref]
	s.mu.Unlock()
	if err != nil || remote {
		return "", failed(`notFound: "image not found: %s"`, ref)
	}
	return name, nil
}

// pull pulls an image.
func (s *Service) pull(i *invocation) (int, error) {
	if len(i.args) != 1 {
		return 0, usage("image pull", "Missing expected argument '<reference>'")
	}
	if i.has("--platform") && i.last("--platform") != Platform {
		return 0, failed(`unsupported: "platform %s"`, i.last("--platform"))
	}
	fmt.Fprintln(i.stderr, "[1/2] Fetching image [0s]")
	s.mu.Lock()
	delete(s.remote, i.args[0])
	s.mu.Unlock()
	if _, err := s.local(i, i.args[0]); err != nil {
		return 0, failed(`internalError: "HTTP request to https://registry-1.docker.io/v2/%s failed with response: 404 Not Found"`, i.args[0])
	}
	fmt.Fprintln(i.stderr, "[2/2] Unpacking image [0s]")
	return 0, nil
}

// inspect prints the description of an image, which lacks settings. Source:
// Sources/ContainerResource/Image/ImageResource.swift and, in apple/containerization,
// Sources/ContainerizationOCI/ImageConfig.swift.
func (s *Service) inspect(i *invocation) (int, error) {
	var list []map[string]any
	for _, ref := range i.args {
		name, err := s.local(i, ref)
		if err != nil {
			return 0, err
		}
		found, err := s.images.Config(i.ctx, name)
		if err != nil {
			return 0, err
		}
		config := map[string]any{}
		for key, value := range configOf(found.Settings) {
			switch key {
			case "User", "Env", "Entrypoint", "Cmd", "WorkingDir", "Labels", "StopSignal":
				config[key] = value
			}
		}
		history := []map[string]string{{"created_by": "RUN /bin/sh -c true # buildkit"}}
		if h := found.Settings.Healthcheck; h != nil {
			history = append(history, map[string]string{"created_by": fmt.Sprintf("HEALTHCHECK &{%q}", h.Test)})
		}
		for _, volume := range found.Settings.Volumes {
			history = append(history, map[string]string{"created_by": "VOLUME [" + volume + "]"})
		}
		digest := digestOf([]byte(name))
		list = append(list, map[string]any{
			"id":            digest[len("sha256:"):],
			"configuration": map[string]any{"name": ref, "descriptor": map[string]any{"digest": digest, "size": 1, "mediaType": "application/vnd.oci.image.index.v1+json"}},
			"variants": []map[string]any{{
				"platform": map[string]string{"os": "linux", "architecture": architecture}, "digest": digestOf([]byte(digest)), "size": 1,
				"config": map[string]any{"os": "linux", "architecture": architecture, "config": config, "history": history, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{}}},
			}},
		})
	}
	return 0, json.NewEncoder(i.stdout).Encode(list)
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// configOf returns the settings of an image as the object "config" of its configuration. Those that
// it does not have are absent.
func configOf(s registryimage.Settings) map[string]any {
	all := map[string]any{}
	put := func(key string, value any, has bool) {
		if has {
			all[key] = value
		}
	}
	put("User", s.User, s.User != "")
	put("Env", s.Env, s.Env != nil)
	put("Entrypoint", s.Entrypoint, s.Entrypoint != nil)
	put("WorkingDir", s.WorkingDir, s.WorkingDir != "")
	put("Shell", s.Shell, s.Shell != nil)
	put("Healthcheck", s.Healthcheck, s.Healthcheck != nil)
	volumes := map[string]struct{}{}
	for _, v := range s.Volumes {
		volumes[v] = struct{}{}
	}
	put("Volumes", volumes, len(volumes) > 0)
	return all
}

// save writes the archive of an image, in the layout of OCI, with an index of indexes as BuildKit
// makes them.
func (s *Service) save(i *invocation) (int, error) {
	if len(i.args) != 1 || i.last("--output") == "" || i.has("--platform") && i.last("--platform") != Platform {
		return 0, failed(`invalidArgument: "failed to save image(s)"`)
	}
	name, err := s.local(i, i.args[0])
	if err != nil {
		return 0, failed(`invalidArgument: "failed to save image(s)"`)
	}
	found, err := s.images.Config(i.ctx, name)
	if err != nil {
		return 0, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	document := func(name string, of any) map[string]any {
		content, _ := json.Marshal(of) // maps have a form
		digest := digestOf(content)
		if name == "" {
			name = "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:")
		}
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}))
		_, writing := w.Write(content)
		err = errors.Join(err, writing)
		return map[string]any{"digest": digest, "size": len(content)}
	}
	config := document("", map[string]any{"os": "linux", "architecture": architecture, "config": configOf(found.Settings), "rootfs": map[string]any{"type": "layers", "diff_ids": []string{}}})
	manifest := document("", map[string]any{"schemaVersion": 2, "config": config, "layers": []any{}})
	other := map[string]any{"digest": digestOf([]byte("another platform")), "size": 1}
	index := document("", map[string]any{"schemaVersion": 2, "manifests": []any{other, manifest}})
	document("index.json", map[string]any{"schemaVersion": 2, "manifests": []any{index}})
	err = errors.Join(err, w.Close())
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(absolute(i.dir, i.last("--output")), archive.Bytes(), 0o600); err != nil {
		return 0, err
	}
	_, err = fmt.Fprintln(i.stdout, i.args[0])
	return 0, err
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// withDockerfile is a build context with another Dockerfile.
type withDockerfile struct {
	fs.FS

	dockerfile []byte
}

// Open implements fs.FS.
func (w withDockerfile) Open(name string) (fs.File, error) {
	if name == "Dockerfile" {
		return fstest.MapFS{name: {Data: w.dockerfile, Mode: 0o644}}.Open(name)
	}
	return w.FS.Open(name)
}

// ReadLink implements fs.ReadLinkFS.
func (w withDockerfile) ReadLink(name string) (string, error) { return fs.ReadLink(w.FS, name) }

// Lstat implements fs.ReadLinkFS.
func (w withDockerfile) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(w.FS, name) }

// inner returns a Dockerfile in which images that were built here have the names that their builder
// knows.
func (s *Service) inner(dockerfile []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, ref := range s.tags {
		dockerfile = bytes.ReplaceAll(dockerfile, []byte("FROM "+tag), []byte("FROM "+ref))
	}
	return dockerfile
}

// build builds an image.
func (s *Service) build(i *invocation) (int, error) {
	if len(i.args) != 1 || len(i.values["--tag"]) != 1 || i.has("--platform") && i.last("--platform") != Platform {
		return 0, usage("build", "this stand-in builds one context for its own platform, with one tag")
	}
	dir, file := absolute(i.dir, i.args[0]), absolute(i.dir, i.last("--file"))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return 0, usage("build", "context dir does not exist %s", dir)
	}
	dockerfile, err := os.ReadFile(file)
	if err != nil {
		return 0, usage("build", "dockerfile does not exist %s", file)
	}
	if len(dockerfile) >= 16<<10 {
		return 0, failed("Dockerfile size (%d bytes) exceeds the maximum allowed size of 16384 bytes. See https://github.com/apple/container/issues/735.", len(dockerfile))
	}
	args := map[string]string{}
	for _, arg := range i.values["--build-arg"] {
		name, value, _ := strings.Cut(arg, "=")
		args[name] = value
	}
	ref, err := s.images.Build(i.ctx, environment.BuildOptions{
		Name: "appletest", Context: withDockerfile{os.DirFS(dir), s.inner(dockerfile)}, NoCache: i.has("--no-cache"), Args: args,
		Progress: func(line string) { _, _ = io.WriteString(i.stderr, "#1 "+line+"\n") },
	})
	if err != nil {
		if said := new(environment.Error); errors.As(err, &said) {
			_, _ = io.WriteString(i.stderr, said.Output+"\n")
		}
		return 0, failed("unknown: \"%v\"", err)
	}
	s.mu.Lock()
	s.tags[i.last("--tag")] = ref
	s.mu.Unlock()
	_, err = fmt.Fprintln(i.stdout, i.last("--tag"))
	return 0, err
}
