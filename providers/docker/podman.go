package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	pathpkg "path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
)

// heard is what the transport learns from the engine's answers.
type heard struct {
	silent atomic.Bool // the engine left the last request unanswered
	podman atomic.Bool // the engine is Podman
}

// podmanHeader is in each answer of Podman's, also of the API that it shares with Docker. Source:
// github.com/containers/podman, pkg/api/server/handler_api.go.
const podmanHeader = "Libpod-Api-Version"

// statHeader is in the answer to a question about a file.
const statHeader = "X-Docker-Container-Path-Stat"

// note records which engine answered, and reports whether it is Podman.
func (h *heard) note(resp *http.Response) bool {
	if resp.Header.Get(podmanHeader) == "" {
		return false
	}
	h.podman.Store(true)
	return true
}

// forPodman returns a request with what Podman needs to do the same as Docker: it would give copied
// files to the user of the container.
func forPodman(req *http.Request) *http.Request {
	if req.Method != http.MethodPut || !strings.HasSuffix(req.URL.Path, "/archive") {
		return req
	}
	changed := req.Clone(req.Context())
	query := changed.URL.Query()
	query.Set("copyUIDGID", "false")
	changed.URL.RawQuery = query.Encode()
	return changed
}

// maxFailure bounds an answer that says what failed.
const maxFailure = 64 << 10

// correctStatus gives a failed request the status that Docker would answer: Podman's is 500 for
// what the state of a container does not allow. Source: github.com/containers/podman,
// libpod/define/errors.go, and pkg/errorhandling for the fields.
func correctStatus(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound && resp.Header.Get(statHeader) != "" {
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK" // of a link to a file that does not exist
	}
	if resp.StatusCode != http.StatusInternalServerError {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	resp.Body.Close()
	if err != nil {
		return err
	}
	var failure struct {
		Cause string `json:"cause"`
	}
	if json.Unmarshal(text, &failure) == nil && failure.Cause == "container state improper" {
		resp.StatusCode, resp.Status = http.StatusConflict, "409 Conflict"
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// product returns the name of the engine, for printing.
func (h *heard) product() string {
	if h.podman.Load() {
		return "Podman"
	}
	return "Docker"
}

// profileFile writes our seccomp profile into a file of this machine, and returns its name: Podman
// takes the name of a file where Docker takes the profile. The name is that of the content, so
// there is one file for all runs.
var profileFile = sync.OnceValues(writeProfile)

func writeProfile() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(seccomp()))
	name := filepath.Join(dir, "rollout", "seccomp", hex.EncodeToString(sum[:])+".json")
	if held, err := os.ReadFile(name); err == nil && string(held) == seccomp() {
		return name, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	draft, err := os.CreateTemp(filepath.Dir(name), "draft-")
	if err != nil {
		return "", err
	}
	_, err = draft.WriteString(seccomp())
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), name)
	}
	if err != nil {
		_ = os.Remove(draft.Name())
	}
	return name, err
}

// isUnreadable reports whether Podman could not read the file with the profile. It has no other way
// to say so than 500 with this text. Source: github.com/containers/common, pkg/seccomp.
func isUnreadable(err error) bool {
	return err != nil && strings.Contains(err.Error(), "opening seccomp profile failed")
}

// isLocal reports whether the engine listens on a socket of this machine, and may see its files.
func isLocal(api *client.Client) bool { return strings.HasPrefix(api.DaemonHost(), "unix://") }

// podmanNetworks adds a hint to the error of a change of the network, which Podman makes for fewer
// containers than Docker does.
func podmanNetworks(p *Provider, err error) error {
	var e *environment.Error
	if p.podman.Load() && errors.As(err, &e) && e.Kind == environment.KindStart && e.Hint == "" {
		e.Hint = "Podman gives no network to a container that began without one: set the same network for all phases, or begin with the public one"
	}
	return err
}

// commit makes an image of a container. Podman reads none of the configuration, so it gets labels
// and variables as instructions; a health check it does not accept there.
func commit(ctx context.Context, p *Provider, id string, opts container.CommitOptions) (container.CommitResponse, error) {
	if p.podman.Load() && opts.Config != nil {
		for _, key := range slices.Sorted(maps.Keys(opts.Config.Labels)) {
			opts.Changes = append(opts.Changes, "LABEL "+key+"="+oneLine(opts.Config.Labels[key]))
		}
		for _, variable := range opts.Config.Env {
			opts.Changes = append(opts.Changes, "ENV "+oneLine(variable))
		}
	}
	return p.api.ContainerCommit(ctx, id, opts)
}

// oneLine returns text for an instruction, which ends with its line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// copyOut returns an archive of a file, a directory or a symbolic link. Podman follows a link that
// it is asked for, so here the link is asked for first.
func copyOut(ctx context.Context, p *Provider, id, path string) (io.ReadCloser, container.PathStat, error) {
	if p.podman.Load() {
		stat, err := p.api.ContainerStatPath(ctx, id, path)
		if err != nil {
			return nil, stat, err
		}
		if stat.Mode&fs.ModeSymlink != 0 {
			archive, err := linkArchive(pathpkg.Base(path), stat)
			return archive, stat, err
		}
	}
	return p.api.CopyFromContainer(ctx, id, path)
}

// linkArchive returns an archive that has only a symbolic link.
func linkArchive(name string, stat container.PathStat) (io.ReadCloser, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeSymlink, Name: name, Linkname: stat.LinkTarget, Mode: int64(stat.Mode.Perm()), ModTime: stat.Mtime,
	})
	return io.NopCloser(&archive), errors.Join(err, w.Close())
}

// inspectImage returns what the engine knows of an image. Podman leaves the health check out, and
// tells it in its own API alone.
func inspectImage(ctx context.Context, p *Provider, ref string) (image.InspectResponse, error) {
	found, err := p.api.ImageInspect(ctx, ref)
	if err != nil || !p.podman.Load() || found.Config == nil || found.Config.Healthcheck != nil {
		return found, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/v4.0.0/libpod/images/"+url.PathEscape(found.ID)+"/json", nil)
	if err != nil {
		return found, err
	}
	resp, err := p.api.HTTPClient().Do(req)
	if err != nil {
		return found, err
	}
	defer resp.Body.Close()
	var own struct {
		Healthcheck *container.HealthConfig
	}
	if resp.StatusCode == http.StatusOK && json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&own) == nil {
		found.Config.Healthcheck = own.Healthcheck
	}
	return found, nil
}

// isPodmanRace reports whether a build failed because another one removed a layer at the same time,
// as builds of Podman 4 do. It has no other way to say so than this text.
func isPodmanRace(err error) bool {
	return err != nil && strings.Contains(err.Error(), "layer not known")
}
