package actiontest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
)

// gh replaces GitHub's command: it supports the calls in pages.yml, which list no runs of pull
// requests, and has two runs, of which that by schedule left nothing.
const gh = `#!/bin/bash
set -euo pipefail
test -n "$GH_TOKEN" && test "$GH_REPO" = ` + slug + `
case "$*" in
  "run list --workflow nightly-baseline.yml --event schedule --branch main --status completed --limit 20 --json databaseId --jq .[].databaseId") printf '99\n' ;;
  "run list --workflow nightly-baseline.yml --event workflow_dispatch --branch main --status completed --limit 20 --json databaseId --jq .[].databaseId") printf '101\n' ;;
  "run download 101 --name rollout-nightly-job --dir results/101") mkdir -p results/101 && cp -R "$TEST_ARTIFACT/." results/101 ;;
  "run download 99 --name rollout-nightly-job --dir results/99") echo "no valid artifacts found to download" >&2; exit 1 ;;
  *) echo "gh $*: not known" >&2; exit 2 ;;
esac
`

// pagesActions replace those of GitHub Pages. The first packs as the real one does: without files
// whose names begin with a dot.
var pagesActions = map[string]string{
	"actions/upload-pages-artifact": `name: upload
inputs:
  path: { required: true }
runs:
  using: composite
  steps:
    - shell: bash
      run: tar --dereference --hard-dereference --directory "$FROM" -cf "$RUNNER_TEMP/artifact.tar" --exclude=.git --exclude=.github --exclude='.[^/]*' .
      env:
        FROM: ${{ inputs.path }}
    - uses: %s
      with:
        name: github-pages
        path: ${{ runner.temp }}/artifact.tar
`,
	"actions/deploy-pages": `name: deploy
outputs:
  page_url: { value: '${{ steps.deploy.outputs.page_url }}' }
runs:
  using: composite
  steps:
    - id: deploy
      shell: bash
      run: echo page_url=https://acme.github.io/widgets/ >> "$GITHUB_OUTPUT"
`,
}

// The nightly results on main become a site: the released program builds it from their unmodified
// artifacts.
func TestResultsBecomePages(t *testing.T) {
	testenv.Long(t, "a night and its pages in act")
	r := newRepository(t, "apple", "banana")
	r.api.SetBranch(slug, "main", r.commit("an agent"))
	event := map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}}
	night := r.act("nightly-baseline.yml", "workflow_dispatch", event)
	if night.code != 0 {
		t.Fatalf("act ends with %d", night.code)
	}

	server := newRelease(t)
	binary, err := testenv.Binary(t.TempDir())
	must(t, err)
	archive := packed(t, read(t, binary))
	name := "rollout-linux-" + runtime.GOARCH + ".tar.gz"
	server.files["/releases/download/v1.2.3/"+name] = archive
	server.files["/releases/download/v1.2.3/checksums.txt"] = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(archive), name)
	setup := read(t, r.action, "setup/action.yml")
	write(t, r.action, map[string]string{"setup/action.yml": strings.ReplaceAll(setup, "https://github.com/org/rollout-action/releases", server.URL+"/releases")})

	must(t, os.Chmod(filepath.Join(r.action, "setup/install"), 0o755))

	bin := t.TempDir()
	testprogram.Write(t, filepath.Join(bin, "gh"), gh)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	flags := []string{"--env", "TEST_ARTIFACT=" + night.artifact("rollout-nightly-job")}
	for action, text := range pagesActions {
		dir := t.TempDir()
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, pinned(t)["actions/upload-artifact"])
		}
		write(t, dir, map[string]string{"action.yml": text})
		flags = append(flags, "--local-repository", pinned(t)[action]+"="+dir)
	}
	pages := r.act("pages.yml", "workflow_dispatch", event, flags...)
	if pages.code != 0 {
		t.Errorf("act ends with %d", pages.code)
	}
	pages.wantResults(map[string]string{"build": "success", "publish": "success"})
	if !strings.Contains(pages.log, "run 99 has no results") {
		t.Error("nothing says that a run has no results")
	}
	site := t.TempDir()
	command(t, site, "tar", "-xf", filepath.Join(pages.artifact("github-pages"), "artifact.tar"))
	index := read(t, site, "index.html")
	for _, want := range []string{`href="./job/`, "nightly", ">15/15<"} {
		if !strings.Contains(index, want) {
			t.Errorf("the index does not have %q:\n%s", want, index)
		}
	}
	jobs, err := filepath.Glob(filepath.Join(site, "job/*/index.html"))
	must(t, err)
	trials, err := filepath.Glob(filepath.Join(site, "job/*/t/solver/tasks/*/index.html"))
	must(t, err)
	if len(jobs) != 1 || len(trials) != 15 {
		t.Fatalf("the site has %d pages of jobs and %d of trials, want 1 and 15", len(jobs), len(trials))
	}
	if page := read(t, jobs[0]); !strings.Contains(page, "t/solver/tasks/cherry__3/index.html") {
		t.Error("the page of the job does not link to those of its trials")
	}
	if page := read(t, filepath.Dir(jobs[0]), "t/solver/tasks/cherry__3/index.html"); !strings.Contains(page, "cherry") || strings.Contains(page, "model-secret") {
		t.Errorf("the page of a trial is\n%s", page)
	}
}
