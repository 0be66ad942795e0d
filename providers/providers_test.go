package providers_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers"
)

// Keys are what pages list; Check is what decides.
func TestKeysAreThoseThatCheckKnows(t *testing.T) {
	for _, p := range providers.All {
		t.Run(p.Name, func(t *testing.T) {
			for _, k := range p.Keys {
				if k.Name == "" || k.Doc == "" {
					t.Errorf("%+v lacks a name or a description", k)
				}
				for _, problem := range p.Check(map[string]any{k.Name: struct{}{}}) {
					if problem.Message == "unknown key" {
						t.Errorf("%s is listed, but Check does not know it", k.Name)
					}
				}
			}
			if len(p.Keys) == 0 {
				return
			}
			problems := p.Check(map[string]any{"no-such-key": 1})
			if len(problems) != 1 || problems[0].Message != "unknown key" || !slices.Equal(problems[0].Known, environment.ConfigKeyNames(p.Keys)) {
				t.Errorf("an unknown key gives %+v", problems)
			}
		})
	}
}

// Every key says whether it names files, because files of strangers must be told from a
// repository's.
func TestEveryKeySaysWhichFilesItNames(t *testing.T) {
	var check func(t *testing.T, keys []environment.ConfigKey, at string)
	check = func(t *testing.T, keys []environment.ConfigKey, at string) {
		t.Helper()
		for _, k := range keys {
			if !slices.Contains([]environment.FileKind{environment.NoFiles, environment.LocalFiles, environment.FilesElsewhere}, k.Files.Kind) {
				t.Errorf("%s does not say whether it names files: set Files", at+k.Name)
			}
			check(t, k.Keys, at+k.Name+".")
		}
	}
	for _, p := range providers.All {
		t.Run(p.Name, func(t *testing.T) { check(t, p.Keys, "") })
	}
}

// Whoever compares tasks with all providers is connected to none.
func TestUnconnectedProvidersTellWhatTheyCanRun(t *testing.T) {
	for _, p := range providers.All {
		t.Run(p.Name, func(t *testing.T) {
			if got := p.Unconnected.Name(); got != p.Name {
				t.Errorf("it is called %s", got)
			}
			_, gpus := environment.As[environment.GPUProvider](p.Unconnected)
			if unchosen, err := environment.CheckGPUs(p.Unconnected, environment.Limits{GPUs: 1, GPUTypes: "H100"}); (err == nil) != gpus || unchosen != (gpus && p.Name != "modal") {
				t.Errorf("a GPU: %v, %v", unchosen, err)
			}
			if c, ok := environment.As[environment.ServiceChecker](p.Unconnected); ok {
				if err := c.CheckServices(environment.Services{}); err == nil { // which would panic if it needed a connection
					t.Error("services without a network are accepted")
				}
			}
		})
	}
}

func TestSettingsThatNameFiles(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kube.yaml")
	err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://a", certificate-authority: ca.pem}}]
users:
- {name: a, user: {client-certificate: certs/c.pem, client-key: /abs/k.pem}}
- {name: b, user: {tokenFile: token}}
- {name: c, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/login, args: [providers_test.go, no-such-file, ""]}}}
- {name: d, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token]}}}
`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("providers_test.go")
	if err != nil {
		t.Fatal(err)
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(kubeconfig), name) }
	for _, tc := range []struct {
		provider string
		cfg      map[string]any
		asked    []string
		refused  []string
	}{
		{"docker", map[string]any{"network": "a/b", "runtime": "a/b", "pids_limit": 5}, nil, nil},
		{"docker", map[string]any{"mounts": []any{"/srv:/srv"}}, nil, []string{"mounts"}},
		{"sandbox", map[string]any{"base": "host", "network": "own", "scratch": "disk"}, nil, nil},
		{"sandbox", map[string]any{"images": []any{"a.tar", "/b"}}, []string{"a.tar", "/b"}, nil},
		{"sandbox", map[string]any{"dir": "d"}, nil, []string{"dir"}},
		{"kubernetes", map[string]any{
			"registry": "ghcr.io/org/x", "helper_image": "ghcr.io/org/x:1", "namespace": "n", "context": "arn:aws:eks:eu:1:cluster/c", "buildkit": "tcp://b:1",
			"labels": map[string]any{"kueue.x-k8s.io/queue-name": "evals"}, "price": map[string]any{"cpu_hour": 1, "gib_hour": 1},
			"pod": map[string]any{"spec": map[string]any{"dnsConfig": map[string]any{"searches": []any{"a/b"}}}},
		}, nil, nil},
		{"kubernetes", map[string]any{"buildkit": map[string]any{"address": "tcp://b:1", "ca_cert": "ca", "cert": "c", "key": "k", "server_name": "a/b"}}, []string{"c", "ca", "k"}, nil},
		{"kubernetes", map[string]any{"kubeconfig": kubeconfig}, []string{
			kubeconfig, beside("bin/login"), beside("ca.pem"), beside("certs/c.pem"), beside("token"), "/abs/k.pem", here,
		}, nil},
	} {
		entry, _ := providers.All.Find(tc.provider)
		var asked, refused []string
		got, err := environment.AdmitFiles(entry.Keys, tc.cfg,
			func(path string) (string, error) { asked = append(asked, path); return path, nil },
			func(key string) error { refused = append(refused, key); return nil })
		slices.Sort(asked)
		slices.Sort(tc.asked)
		if err != nil || !slices.Equal(asked, tc.asked) || !slices.Equal(refused, tc.refused) || !reflect.DeepEqual(got, tc.cfg) {
			t.Errorf("%s %v: files %q, want %q; refused %q, want %q; then %v, %v", tc.provider, tc.cfg, asked, tc.asked, refused, tc.refused, got, err)
		}
	}
}
