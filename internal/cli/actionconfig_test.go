package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/clitest"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// kubeconfig returns one whose exec plugin writes a file.
func kubeconfig(command string, args ...string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: %q, args: ["%s"]}}}]
`, command, strings.Join(args, `", "`))
}

// Whoever can write a kubeconfig can run a program, by its exec plugin.
func TestAStrangersKubeconfigRunsNothing(t *testing.T) {
	of := newHistory(t)
	comment := `{"issue": {"number": 7, "pull_request": {}}, "repository": {"default_branch": "main"}}`
	for _, event := range []struct{ name, payload string }{{"pull_request_target", forkPull}, {"workflow_run", forkRun}, {"issue_comment", comment}} {
		for _, command := range []string{"run", "validate"} {
			t.Run(event.name+" "+command, func(t *testing.T) {
				c := newCheckout(t, of)
				stolen := filepath.Join(t.TempDir(), "stolen")
				c.write(t, map[string]string{"kube.yaml": kubeconfig("sh", "-c", "env > "+stolen)})
				c.about(event.name, event.payload)
				c.env["INPUT_COMMAND"], c.env["INPUT_ENV-TYPE"] = command, "kubernetes"
				c.env["INPUT_SET"] = "environment.provider_config={kubeconfig: kube.yaml}"
				if command == "validate" {
					delete(c.env, "INPUT_BASELINE")
					delete(c.env, "INPUT_COMMENT")
				}
				t.Chdir(c.dir)
				c.refused("kube.yaml is not in that commit")
				if text, err := os.ReadFile(stolen); err == nil {
					t.Errorf("the stranger's program ran, with\n%s", text)
				}
			})
		}
	}
}

// withFiles is a provider whose keys name files of each kind. It keeps the configuration that it
// gets.
func withFiles(got *map[string]any) providers.Entry {
	e := clitest.Entry("with-files", func(_ context.Context, cfg map[string]any, _ providers.Host) (environment.Provider, error) {
		*got = cfg
		return fake.New(fake.Options{}), nil
	})
	local, no := environment.Files{Kind: environment.LocalFiles}, environment.Files{Kind: environment.NoFiles}
	inside := environment.Files{Kind: environment.LocalFiles, Inside: func(path string) []string {
		return []string{filepath.Join(filepath.Dir(path), "other.txt")}
	}}
	e.Keys = []environment.ConfigKey{
		{Name: "file", Files: local}, {Name: "list", Files: local}, {Name: "leads", Files: inside}, {Name: "name", Files: no},
		{Name: "mounts", Files: environment.Files{Kind: environment.FilesElsewhere}},
		{Name: "nested", Files: no, Keys: []environment.ConfigKey{{Name: "cert", Files: local}, {Name: "host", Files: no}}},
	}
	e.Check = func(map[string]any) []environment.ConfigProblem { return nil }
	return e
}

func TestFilesOfAProvidersSettingsAreCompared(t *testing.T) {
	of := newHistory(t)
	of.write(t, map[string]string{"conf/ours.txt": "ours\n", "conf/other.txt": "too\n"})
	of.commit("main")
	for _, tc := range []struct {
		name, set string
		with      map[string]string // files of the checkout
		wants     string            // in the refusal; "": it runs
	}{
		{"names that look like paths", "{name: ghcr.io/org/x}", nil, ""},
		{"nested names that look like paths", "{nested: {host: a/b}}", nil, ""},
		{"our file", "{file: conf/ours.txt}", nil, ""},
		{"our file among others", "{list: [conf/ours.txt, README.md]}", nil, ""},
		{"our nested file", "{nested: {cert: conf/ours.txt}}", nil, ""},
		{"our file that leads to ours", "{leads: conf/ours.txt}", nil, ""},
		{"another file", "{file: conf/ours.txt}", map[string]string{"conf/ours.txt": "evil"}, "conf/ours.txt differs"},
		{"a new file without a slash", "{file: evil}", map[string]string{"evil": "evil"}, "evil is not in that commit"},
		{"a new file in a list", "{list: [README.md, evil]}", map[string]string{"evil": "evil"}, "evil is not in that commit"},
		{"a new nested file", "{nested: {cert: evil}}", map[string]string{"evil": "evil"}, "evil is not in that commit"},
		{"a file that ours leads to", "{leads: conf/ours.txt}", map[string]string{"conf/other.txt": "evil"}, "conf/other.txt differs"},
		{"a file outside", "{file: /etc/passwd}", nil, "/etc/passwd lies outside of the checkout"},
		{"a file in the home directory", "{file: ~/x}", nil, "lies outside of the checkout"},
		{"files that cannot be compared", "{mounts: x}", nil, "environment.provider_config.mounts names files of this machine"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCheckout(t, of)
			var got map[string]any
			before := offered
			offered = append(slices.Clone(offered), withFiles(&got))
			t.Cleanup(func() { offered = before })
			c.write(t, tc.with)
			c.about("pull_request_target", forkPull)
			c.env["INPUT_ENV-TYPE"], c.env["INPUT_SET"] = "with-files", "environment.provider_config="+tc.set
			if tc.wants != "" {
				c.refused(tc.wants)
				return
			}
			c.runs()
			for _, key := range []string{"file", "leads"} {
				if path, ok := got[key].(string); ok && strings.HasPrefix(path, c.dir) {
					t.Errorf("the provider got %s, which can change, and not the checked copy", path)
				}
			}
			if config, err := os.ReadFile(filepath.Join(c.dir, "jobs/j/config.json")); err != nil || strings.Contains(string(config), "rollout-checked-") {
				t.Errorf("config.json names the copy: %v\n%s", err, config)
			}
		})
	}
}
