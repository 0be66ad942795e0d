package registryimage

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/internal/core/environment"
)

// imageFor returns an image with two layers for a platform.
func imageFor(t *testing.T, platform string) v1.Image {
	t.Helper()
	img, err := random.Image(2000, 2)
	must(t, err)
	file, err := img.ConfigFile()
	must(t, err)
	p, err := v1.ParsePlatform(platform)
	must(t, err)
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = p.OS, p.Architecture, p.Variant
	file.Config = v1.Config{
		Entrypoint: []string{"/entry"}, Cmd: []string{"cmd"}, Env: []string{"A=b"}, User: "u", WorkingDir: "/w",
		Labels: map[string]string{"l": "m"}, Volumes: map[string]struct{}{"/v2": {}, "/v1": {}}, Shell: []string{"/bin/zsh", "-c"},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "true"}, Interval: time.Second},
	}
	img, err = mutate.ConfigFile(img, file)
	must(t, err)
	return img
}

func indexOf(t *testing.T, images map[string]v1.Image) v1.ImageIndex {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for platform, img := range images {
		p, err := v1.ParsePlatform(platform)
		must(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: p}})
	}
	return index
}

func digestOf(t *testing.T, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	digest, err := of.Digest()
	must(t, err)
	return digest.String()
}

func TestConfig(t *testing.T) {
	r := newRegistry(t)
	amd64, arm64, v7 := imageFor(t, "linux/amd64"), imageFor(t, "linux/arm64/v8"), imageFor(t, "linux/arm/v7")
	must(t, remote.Write(reference(t, r.host+"/one:1"), amd64))
	must(t, remote.Write(reference(t, r.host+"/other"), arm64))
	must(t, remote.WriteIndex(reference(t, r.host+"/many"), indexOf(t, map[string]v1.Image{"linux/amd64": amd64, "linux/arm64/v8": arm64, "unknown/unknown": v7})))
	must(t, remote.WriteIndex(reference(t, r.host+"/arm"), indexOf(t, map[string]v1.Image{"linux/arm64": arm64, "linux/arm/v7": v7})))
	i := images(t, r.config())
	for _, ref := range []string{"/one:1", "/many", "/many@" + digestOf(t, amd64)} {
		r.forget()
		got, err := i.Config(t.Context(), r.host+ref)
		must(t, err)
		repository, _, _ := strings.Cut(strings.ReplaceAll(ref, "@", ":"), ":")
		want := Image{
			Ref: r.host + repository + "@" + digestOf(t, amd64), Digest: digestOf(t, amd64), Platform: "linux/amd64", Size: got.Size,
			Settings: Settings{
				Entrypoint: []string{"/entry"}, Cmd: []string{"cmd"}, Env: []string{"A=b"}, User: "u", WorkingDir: "/w", Shell: []string{"/bin/zsh", "-c"},
				Healthcheck: &dockerspec.HealthcheckConfig{Test: []string{"CMD", "true"}, Interval: time.Second},
				Labels:      map[string]string{"l": "m"}, Volumes: []string{"/v1", "/v2"},
			},
		}
		if got.Size < 4000 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", ref, got, want)
		}
		if n := r.count("GET", "/blobs/"); n != 1 {
			t.Errorf("%s: %d blobs were fetched, and the configuration is one", ref, n)
		}
		r.forget()
		if again, err := i.Config(t.Context(), r.host+ref); err != nil || !reflect.DeepEqual(again, want) || r.count("GET", "") != 0 {
			t.Errorf("%s: the registry was asked again: %v", ref, r.requests)
		}
	}
	_, err := i.Config(t.Context(), r.host+"/other")
	wantError(t, err, environment.KindPull, false, ErrPlatform, "linux/amd64: it is for linux/arm64/v8")
	_, err = i.Config(t.Context(), r.host+"/arm")
	wantError(t, err, environment.KindPull, false, ErrPlatform, "linux/amd64: there is ", "linux/arm64", "linux/arm/v7")
	_, err = i.Config(t.Context(), r.host+"/one:2")
	wantError(t, err, environment.KindPull, false, fs.ErrNotExist, "404 Not Found")
	_, err = i.Config(t.Context(), r.host+"/none")
	wantError(t, err, environment.KindPull, false, fs.ErrNotExist, "404 Not Found", "check its name")
	_, err = i.Config(t.Context(), "Not An Image")
	wantError(t, err, environment.KindPull, false, nil, "use NAME, NAME:TAG")
	_, err = i.Config(t.Context(), "x.invalid/a")
	wantError(t, err, environment.KindPull, false, fs.ErrNotExist, "RFC 6761")

	c := r.config()
	c.Platform = "linux/arm64"
	got, err := images(t, c).Config(t.Context(), r.host+"/many")
	if err != nil || got.Digest != digestOf(t, arm64) || got.Platform != "linux/arm64/v8" {
		t.Errorf("for arm64: %+v, %v", got, err)
	}
	c.Platform = "linux/arm/v6"
	_, err = images(t, c).Config(t.Context(), r.host+"/arm")
	wantError(t, err, environment.KindPull, false, ErrPlatform, "linux/arm/v6: there is ")
}

// The errors of a registry have their kinds wherever it is asked, and those that pass are asked for
// again.
func TestRegistryErrors(t *testing.T) {
	for _, tc := range []struct {
		name      string
		status    int
		attempts  int64
		transient bool
		is        error
		texts     []string
	}{
		{"without a login", http.StatusUnauthorized, 1, false, fs.ErrPermission, []string{"401 Unauthorized", "without credentials", "docker login "}},
		{"forbidden", http.StatusForbidden, 1, false, fs.ErrPermission, []string{"403 Forbidden", "without credentials", "docker login "}},
		{"limited", http.StatusTooManyRequests, attempts, true, nil, []string{"429 Too Many Requests", "limits are higher for accounts"}},
		{"broken", http.StatusInternalServerError, attempts, true, nil, []string{"500 Internal Server Error", "said the test"}},
		{"a proxy is broken", http.StatusBadGateway, attempts, true, nil, []string{"502 Bad Gateway"}},
		{"hangs up", 0, attempts, true, nil, []string{"EOF"}},
	} {
		statuses := make([]int, 20)
		for n := range statuses {
			statuses[n] = tc.status
		}
		t.Run(tc.name, func(t *testing.T) {
			r := newRegistry(t)
			i := images(t, r.config())
			asked := r.answers("GET", "/manifests/", statuses...)
			_, err := i.Config(t.Context(), r.host+"/a")
			wantError(t, err, environment.KindPull, tc.transient, tc.is, append(tc.texts, "look for image "+r.host+"/a: registry "+r.host)...)
			if n := asked.Load(); n != tc.attempts && (tc.status != 0 || n > 2*tc.attempts) { // net/http has its own second try if a connection ends
				t.Errorf("reading: asked %d times, want %d", asked.Load(), tc.attempts)
			}
			asked = r.answers("POST", "/blobs/uploads/", statuses...)
			_, err = i.Push(t.Context(), PushOptions{Name: "x", Key: strings.Repeat("a", 16), Layers: []Layer{hello}})
			wantError(t, err, environment.KindPull, tc.transient, tc.is, append(tc.texts, "push image "+r.host+"/evals/x:aaaa")...)
			if n := asked.Load(); n < tc.attempts || n > 2*tc.attempts { // two blobs at once
				t.Errorf("pushing: asked %d times, want %d for each blob", n, tc.attempts)
			}
			asked = r.answers("POST", "/rollout-check/blobs/uploads/", statuses...)
			err = i.CheckPush(t.Context())
			wantError(t, err, environment.KindPull, tc.transient, tc.is, append(tc.texts, "push images to "+r.host+"/evals")...)
			if asked.Load() != tc.attempts {
				t.Errorf("checking: asked %d times, want %d", asked.Load(), tc.attempts)
			}
		})
	}
	t.Run("with the wrong login", func(t *testing.T) {
		r := newRegistry(t)
		login(t, r.host)
		r.answers("GET", "/manifests/", 403)
		_, err := images(t, r.config()).Config(t.Context(), r.host+"/a")
		wantError(t, err, environment.KindPull, false, fs.ErrPermission, `the credentials of user "bob"`)
	})
	t.Run("not there", func(t *testing.T) {
		c := Config{Registry: "127.0.0.1:1/evals", Platform: "linux/amd64"}
		_, err := images(t, c).Config(t.Context(), "127.0.0.1:1/a")
		wantError(t, err, environment.KindPull, true, nil, "refused")
	})
	t.Run("it recovers", func(t *testing.T) {
		r := newRegistry(t)
		i := images(t, r.config())
		for _, status := range []int{500, 429, 0} {
			for _, request := range []struct{ method, part string }{{"POST", "/blobs/uploads/"}, {"PATCH", "/blobs/"}, {"PUT", "/blobs/"}, {"PUT", "/manifests/"}, {"HEAD", "/blobs/"}} {
				asked := r.answers(request.method, request.part, status, status)
				name := "recovers-" + strings.ToLower(request.method) + "-" + strings.Trim(request.part, "/")[:4] + string(rune('a'+status/100))
				ref, err := i.Push(t.Context(), PushOptions{Name: name, Key: strings.Repeat("a", 16), Layers: []Layer{hello}})
				if err != nil || asked.Load() < 3 {
					t.Errorf("%s %s, %d: asked %d times: %v", request.method, request.part, status, asked.Load(), err)
					continue
				}
				img, err := remote.Image(reference(t, ref))
				must(t, err)
				must(t, validate.Image(img))
			}
		}
	})
}

func TestLoginIsUsed(t *testing.T) {
	r := newRegistry(t)
	hook := func(w http.ResponseWriter, req *http.Request) bool {
		if user, password, _ := req.BasicAuth(); user == "bob" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	r.before.Store(&hook)
	i := images(t, r.config())
	wantError(t, i.CheckPush(t.Context()), environment.KindPull, false, fs.ErrPermission, "without credentials")
	login(t, r.host)
	must(t, i.CheckPush(t.Context()))
	ref, err := i.Push(t.Context(), PushOptions{Name: "x", Key: strings.Repeat("a", 16), Layers: []Layer{hello}})
	must(t, err)
	if _, err := i.Config(t.Context(), ref); err != nil {
		t.Error(err)
	}
}

// A registry may want a token that it gives for a login.
func TestTokens(t *testing.T) {
	r := newRegistry(t)
	var refuse atomic.Bool
	hook := func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/token" {
			if user, password, _ := req.BasicAuth(); refuse.Load() || user != "bob" || password != "secret" {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			_, _ = io.WriteString(w, `{"token":"for `+req.URL.Query().Get("scope")+`"}`)
			return true
		}
		if strings.HasPrefix(req.Header.Get("Authorization"), "Bearer for repository:") {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.host+`/token",service="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	r.before.Store(&hook)
	login(t, r.host)
	i := images(t, r.config())
	must(t, i.CheckPush(t.Context()))
	ref, err := i.Push(t.Context(), PushOptions{Name: "x", Key: strings.Repeat("a", 16), Layers: []Layer{hello}})
	must(t, err)
	refuse.Store(true)
	_, err = i.Config(t.Context(), ref)
	wantError(t, err, environment.KindPull, false, fs.ErrPermission, "registry "+r.host+": 403 Forbidden", `user "bob"`)
}

// A registry without TLS that is not on the loopback interface gets nothing, unless that is wanted.
func TestPlainHTTP(t *testing.T) {
	for _, plain := range []bool{false, true} {
		i := images(t, Config{Registry: "registry.local:5000/evals", PlainHTTP: plain, Platform: "linux/amd64"})
		for host, want := range map[string]bool{"registry.local:5000": plain, "127.0.0.1:5000": true, "localhost:80": true, "10.0.0.1": false, "ghcr.io": false} {
			if i.plainHTTP(host) != want {
				t.Errorf("plain_http %t: %s is %t", plain, host, !want)
			}
		}
	}
}

var hello = Layer{Open: func(context.Context) (io.ReadCloser, error) {
	return FileLayer("/bin/hello", 0o755, 5, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("hello")), nil }).Open(context.Background())
}}

func TestPushFromScratch(t *testing.T) {
	r := newRegistry(t)
	i := images(t, r.config())
	key := strings.Repeat("0123456789abcdef", 4)
	opts := PushOptions{
		Name: "Org/Helper", Key: key, Layers: []Layer{hello, hello},
		Change: func(s *Settings) {
			s.Entrypoint, s.Labels = []string{"/bin/hello"}, map[string]string{"a": "b"}
			s.Healthcheck = &dockerspec.HealthcheckConfig{Test: []string{"NONE"}, StartInterval: time.Second}
		},
	}
	if ref, err := i.Find(t.Context(), opts.Name, key); ref != "" || err != nil {
		t.Errorf("before it is there: %q, %v", ref, err)
	}
	ref, err := i.Push(t.Context(), opts)
	must(t, err)
	if !strings.HasPrefix(ref, r.host+"/evals/org-helper@sha256:") {
		t.Errorf("the reference is %s", ref)
	}
	if found, err := i.Find(t.Context(), opts.Name, key); found != ref || err != nil {
		t.Errorf("found %q, %v, want %s", found, err, ref)
	}
	img, err := remote.Image(reference(t, r.host+"/evals/org-helper:"+key))
	must(t, err)
	must(t, validate.Image(img))
	if r.host+"/evals/org-helper@"+digestOf(t, img) != ref {
		t.Errorf("the tag is of %s, not %s", digestOf(t, img), ref)
	}
	described, err := i.Config(t.Context(), ref)
	must(t, err)
	want := Settings{Entrypoint: []string{"/bin/hello"}, Labels: map[string]string{"a": "b"}, Healthcheck: &dockerspec.HealthcheckConfig{Test: []string{"NONE"}, StartInterval: time.Second}}
	if described.Platform != "linux/amd64" || !reflect.DeepEqual(described.Settings, want) {
		t.Errorf("it is %+v", described)
	}
	layers, err := img.Layers()
	must(t, err)
	content, err := layers[0].Uncompressed()
	must(t, err)
	var list []string
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		text, err := io.ReadAll(archive)
		must(t, err)
		list = append(list, header.FileInfo().Mode().String()+" "+header.Name+" "+string(text))
	}
	if got := strings.Join(list, "|"); got != "drwxr-xr-x bin/ |-rwxr-xr-x bin/hello hello" {
		t.Errorf("the layer has %s", got)
	}
	r.forget()
	again, err := images(t, r.config()).Push(t.Context(), opts)
	if err != nil || again != ref || r.count("PATCH", "") != 0 {
		t.Errorf("pushed again: %s, %v, %d uploads", again, err, r.count("PATCH", ""))
	}
	if _, err := i.Push(t.Context(), PushOptions{Name: "x", Key: "latest"}); err == nil || !strings.Contains(err.Error(), "hexadecimal") {
		t.Errorf("an odd key: %v", err)
	}
	_, err = images(t, Config{Platform: "linux/amd64"}).Push(t.Context(), opts)
	wantError(t, err, environment.KindUnavailable, false, nil, "no registry is configured", "environment.provider_config.registry")
}

func TestPushOnABase(t *testing.T) {
	for _, tc := range []struct {
		name           string
		mounts, remote bool
		fetched        int // layers
		uploaded       int // blobs: the new layer, the configuration, and the layers that were fetched
	}{
		{"of the same registry", true, false, 0, 2},
		{"of the same registry, which cannot mount", false, false, 2, 4},
		{"of another registry", true, true, 2, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRegistry(t)
			r.mounts = tc.mounts
			from := r
			if tc.remote {
				from = newRegistry(t)
			}
			base := imageFor(t, "linux/amd64")
			must(t, remote.Write(reference(t, from.host+"/base:1"), base))
			i := images(t, r.config())
			r.forget()
			from.forget()
			ref, err := i.Push(t.Context(), PushOptions{Base: from.host + "/base:1", Layers: []Layer{hello}, Name: "on", Key: strings.Repeat("b", 32)})
			must(t, err)
			if n := from.count("GET", "/v2/base/blobs/") - 1; n != tc.fetched { // without the configuration
				t.Errorf("%d layers were fetched, want %d", n, tc.fetched)
			}
			if n := r.count("PATCH", ""); n != tc.uploaded {
				t.Errorf("%d blobs were uploaded, want %d", n, tc.uploaded)
			}
			r.mounts = false
			img, err := remote.Image(reference(t, ref))
			must(t, err)
			must(t, validate.Image(img))
			before, err := base.ConfigFile()
			must(t, err)
			after, err := img.ConfigFile()
			must(t, err)
			if !reflect.DeepEqual(before.Config, after.Config) || len(after.RootFS.DiffIDs) != 3 || !reflect.DeepEqual(after.RootFS.DiffIDs[:2], before.RootFS.DiffIDs) {
				t.Errorf("the configuration is %+v", after)
			}
		})
	}
	t.Run("for another platform", func(t *testing.T) {
		r := newRegistry(t)
		must(t, remote.Write(reference(t, r.host+"/base:1"), imageFor(t, "linux/arm64")))
		_, err := images(t, r.config()).Push(t.Context(), PushOptions{Base: r.host + "/base:1", Name: "on", Key: strings.Repeat("b", 32)})
		wantError(t, err, environment.KindPull, false, ErrPlatform)
	})
}

func TestPushObeysContext(t *testing.T) {
	r := newRegistry(t)
	ctx, cancel := context.WithCancel(t.Context())
	hook := func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPatch {
			return false
		}
		cancel()
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
		return true
	}
	r.before.Store(&hook)
	_, err := images(t, r.config()).Push(ctx, PushOptions{Name: "x", Key: strings.Repeat("a", 16), Layers: []Layer{hello}})
	if !errors.Is(err, context.Canceled) || environment.IsTransient(err) {
		t.Errorf("error %v", err)
	}
	broken := Layer{Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("x"), failing{errors.New("it broke")})), nil
	}}
	_, err = images(t, r.config()).Push(t.Context(), PushOptions{Name: "x", Key: strings.Repeat("a", 16), Layers: []Layer{broken}})
	if err == nil || !strings.Contains(err.Error(), "pack layer 1: it broke") {
		t.Errorf("error %v", err)
	}
	short := FileLayer("/a", 0o644, 6, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("hello")), nil })
	_, err = images(t, r.config()).Push(t.Context(), PushOptions{Name: "x", Key: strings.Repeat("a", 16), Layers: []Layer{short}})
	if err == nil || !strings.Contains(err.Error(), "a has 5 bytes, not 6") {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestChangeConfigKeepsWhatItDoesNotKnow(t *testing.T) {
	before := `{"os":"linux","os.features":["x"],"moby.buildkit.x":{"a":1},"config":{"Env":["A=b"],"StopSignal":"SIGINT","ArgsEscaped":true,` +
		`"Cmd":["c"],"Healthcheck":{"Test":["NONE"],"StartInterval":5}},"rootfs":{"type":"layers","diff_ids":["sha256:` + zeros + `"]},"history":[{"odd":1}]}`
	one := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("1", 64)}
	for _, tc := range []struct {
		name   string
		change func(*Settings)
		config string
	}{
		{"unchanged", nil, `{"ArgsEscaped":true,"Cmd":["c"],"Env":["A=b"],"Healthcheck":{"Test":["NONE"],"StartInterval":5},"StopSignal":"SIGINT"}`},
		{"changed", func(s *Settings) { s.Cmd, s.User, s.Volumes = nil, "u", []string{"/v"} },
			`{"ArgsEscaped":true,"Env":["A=b"],"Healthcheck":{"Test":["NONE"],"StartInterval":5},"StopSignal":"SIGINT","User":"u","Volumes":{"/v":{}}}`},
	} {
		raw, err := changeConfig([]byte(before), []v1.Hash{one}, tc.change)
		must(t, err)
		want := `{"config":` + tc.config + `,"history":[{"odd":1},{"created_by":"rollout"}],"moby.buildkit.x":{"a":1},"os":"linux","os.features":["x"],` +
			`"rootfs":{"type":"layers","diff_ids":["sha256:` + zeros + `","` + one.String() + `"]}}`
		if string(raw) != want {
			t.Errorf("%s:\n%s, want\n%s", tc.name, raw, want)
		}
	}
	for _, bad := range []string{"", "[]", `{"rootfs":1}`, `{"config":[]}`, `{"history":{}}`} {
		if _, err := changeConfig([]byte(bad), nil, nil); err == nil {
			t.Errorf("%q is a configuration", bad)
		}
	}
}

var zeros = strings.Repeat("0", 64)

// A layer that is read again gives the same bytes, so that machines that make the same image need
// not upload it.
func TestSpooledLayersAreTheSame(t *testing.T) {
	layers := [2]*spooled{}
	for n := range layers {
		s, err := spool(t.Context(), hello, types.OCILayer)
		must(t, err)
		defer s.close()
		layers[n] = s
	}
	if layers[0].digest != layers[1].digest || layers[0].diffID != layers[1].diffID || layers[0].digest == layers[0].diffID {
		t.Errorf("%+v and %+v", layers[0], layers[1])
	}
	for range 2 {
		a, err := layers[0].Compressed()
		must(t, err)
		b, err := layers[1].Uncompressed()
		must(t, err)
		compressed, err := io.ReadAll(a)
		must(t, err)
		content, err := io.ReadAll(b)
		must(t, err)
		digest, _, err := v1.SHA256(bytes.NewReader(compressed))
		must(t, err)
		diffID, _, err := v1.SHA256(bytes.NewReader(content))
		must(t, err)
		if digest != layers[0].digest || diffID != layers[0].diffID || int64(len(compressed)) != layers[0].size {
			t.Errorf("it has %s, %s and %d bytes, not %+v", digest, diffID, len(compressed), layers[0])
		}
	}
}

func TestManifestHasItsMediaType(t *testing.T) {
	img, release, err := assemble(t.Context(), found{config: []byte("{}")}, PushOptions{})
	defer release()
	must(t, err)
	var manifest struct{ MediaType, SchemaVersion any }
	must(t, json.Unmarshal(img.rawManifest, &manifest))
	if manifest.MediaType != string(types.OCIManifestSchema1) {
		t.Errorf("it is %v", manifest.MediaType)
	}
}

func TestNewChecksItsConfiguration(t *testing.T) {
	for registry, want := range map[string]string{
		"ghcr.io/org/evals": "", "localhost:5000": "", "localhost/x": "", "127.0.0.1:5000/a/b": "", "docker.io/org": "",
		"https://ghcr.io/org": `leave out "https://"`, "org/evals": "is not a registry's host", "ghcr.io/Org": "want HOST/PATH", "ghcr.io/org:tag": "want HOST/PATH", "ghcr.io/": "ends in a slash",
	} {
		err := CheckRegistry(registry)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", registry, err, want)
		}
	}
	for _, c := range []Config{{Platform: "linux"}, {}, {Platform: "linux/amd64", Builder: "kaniko"}, {Platform: "linux/amd64", Registry: "x"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is a configuration", c)
		}
	}
	for address, want := range map[string]string{
		"tcp://h:1": "", "unix:///run/x": "", "docker-container://x": "", "kube-pod://x?namespace=y": "",
		"tcp://h": "HOST:PORT", "http://h:1": "want tcp://", "": "want tcp://",
	} {
		err := CheckBuildKit(BuildKit{Address: address})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if CheckBuildKit(BuildKit{Address: "tcp://h:1", Cert: "c"}) == nil || CheckBuildKit(BuildKit{Address: "unix:///x", CACert: "c"}) == nil {
		t.Error("certificates are not checked")
	}
}
