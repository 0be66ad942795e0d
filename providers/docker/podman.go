package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
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
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
)

// heard is what is known of the engine, mostly from its answers.
type heard struct {
	tls    bool        // it is reached by TLS
	silent atomic.Bool // the engine left the last request unanswered
	podman atomic.Bool // the engine is Podman
	named  atomic.Bool // and resolves the names of services
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
	var own struct {
		Healthcheck *container.HealthConfig
	}
	if askPodman(ctx, p, "images/"+url.PathEscape(found.ID)+"/json", &own) == nil {
		found.Config.Healthcheck = own.Healthcheck
	}
	return found, nil
}

// askPodman decodes an answer of Podman's own API.
func askPodman(ctx context.Context, p *Provider, path string, answer any) error {
	at := "http://podman" // a socket: the name does not count
	if host, err := client.ParseHostURL(p.api.DaemonHost()); err == nil && host.Scheme == "tcp" {
		host.Scheme = "http"
		if p.tls {
			host.Scheme = "https"
		}
		at = strings.TrimSuffix(host.String(), "/")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/v4.0.0/libpod/"+path, nil)
	if err != nil {
		return err
	}
	resp, err := p.api.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(answer)
}

// healthChecks runs the health check of a container that Podman does not: it leaves that to timers
// of systemd, which a container or a machine without systemd does not have.
type healthChecks struct {
	last  time.Time // the end of the last check that Podman knows
	since time.Time // we know of it
}

// missedTime is how late a check may be until it has been missed.
const missedTime = time.Second

// runMissed runs the check of a container that was due at some time before. Podman counts it as one
// of its own.
func (h *healthChecks) runMissed(ctx context.Context, p *Provider, found container.InspectResponse) {
	if !p.podman.Load() || found.State.Health == nil || found.State.Health.Status != container.Starting || found.Config == nil || found.Config.Healthcheck == nil {
		return
	}
	var last time.Time
	if log := found.State.Health.Log; len(log) > 0 {
		last = log[len(log)-1].End
	}
	if h.since.IsZero() || !last.Equal(h.last) {
		h.last, h.since = last, time.Now()
	}
	check := found.Config.Healthcheck
	if time.Since(h.since) < cmp.Or(check.Interval, 30*time.Second)+missedTime {
		return
	}
	ctx, cancel := awake.WithTimeout(ctx, cmp.Or(check.Timeout, 30*time.Second)+reachTime)
	defer cancel()
	var result container.Health
	_ = askPodman(askOnce(ctx), p, "containers/"+url.PathEscape(found.ID)+"/healthcheck", &result) // the container's state has the result
	h.since = time.Now()
}

// nameless are what C libraries say of a name that does not exist. Source: gai_strerror(3), and
// src/network/gai_strerror.c of musl.
var nameless = []string{"Name or service not known", "Temporary failure in name resolution", "Name does not resolve", "Try again"}

// checkNames returns an error if main does not find services by their names: Podman has a server of
// names only if it finds the program, and says nothing otherwise. Then they would look broken.
func checkNames(ctx context.Context, main *containerEnv) error {
	if !main.p.podman.Load() || main.p.named.Load() {
		return nil
	}
	var said bytes.Buffer
	opts := environment.ExecOptions{Env: map[string]string{"LC_ALL": "C"}, Stderr: &limited{&said, maxHelperErrors}}
	if _, err := main.Exec(ctx, ": </dev/tcp/"+environment.MainService+"/1", opts); err != nil {
		return err
	}
	if slices.ContainsFunc(nameless, func(text string) bool { return strings.Contains(said.String(), text) }) {
		return &environment.Error{
			Kind: environment.KindStart, Err: errors.New("this Podman does not resolve the names of services"),
			Hint: "install the packages netavark and aardvark-dns; if podman info still has the network backend cni, podman system reset, which deletes all images and containers, chooses another",
		}
	}
	main.p.named.Store(true)
	return nil
}

// isPodmanRace reports whether a build failed because another one removed a layer at the same time,
// as builds of Podman 4 do. It has no other way to say so than this text.
func isPodmanRace(err error) bool {
	return err != nil && strings.Contains(err.Error(), "layer not known")
}
