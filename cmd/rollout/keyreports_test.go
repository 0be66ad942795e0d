//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// Each of the special characters of this key is escaped in URLs, HTML or JSON, and in Markdown.
const escapedKey = "sk-nobody+may=see&73550_119*"

// saying is a script that knows the key reversed, and has functions to write it in many ways.
const saying = `
key=$(rev <<<'*911_05537&ees=yam+ydobon-ks')
hexed() { printf %s "$key" | od -An -v -tx1 | tr -d ' \n'; }
forms() {
	echo "the key is $key"
	echo "in base64 $(printf %s "$key" | base64 -w0) and $(printf %s "Bearer $key" | base64 -w0) and $(printf %s "xBearer $key" | base64 -w0)"
	echo "in hex $(hexed)"
	echo "in JSON \"$(hexed | sed 's/../\\u00&/g')\""
	echo "in a URL https://example.com/?k=$(hexed | sed 's/../%&/g')"
	echo "in HTML $(hexed | sed 's/../\&#x&;/g')"
	for ((i = 0; i < 40; i++)); do printf '%s ' "$key"; done
	echo
}
flood() { yes "$key" | head -n 3000 | tr '\n' "$1"; }
`

// No output of a run contains the key of a model, whoever prints it and in whatever form: workflow
// output, reports, comments, spans and exports.
func TestTheKeyIsInNoReport(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body) // the content decides
		w.Header().Set("Content-Type", "application/json")
		key := escapedKey
		switch {
		case bytes.Contains(asked, []byte("base64")):
			key = base64.StdEncoding.EncodeToString([]byte("Bearer " + key))
		case bytes.Contains(asked, []byte("escaped")):
			key = strings.NewReplacer("+", `\u002b`, "s", `\u0073`).Replace(key)
		case bytes.Contains(asked, []byte("percent")):
			key = url.QueryEscape(key)
		}
		if bytes.Contains(asked, []byte("fail")) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"error":{"message":"no model for %s","code":"%[1]s"}}`, key)
			return
		}
		fmt.Fprintf(w, `{"id":"1","model":"m-%s","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"it is %[1]s",`+
			`"tool_calls":[{"id":"%[1]s","type":"function","function":{"name":"%[1]s","arguments":"{\"%[1]s\":1}"}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, key)
	}))
	t.Cleanup(provider.Close)
	var sent spansSent
	collector := httptest.NewServer(&sent)
	t.Cleanup(collector.Close)
	github := githubtest.New(t)
	const head, base = "2222222222222222222222222222222222222222", "1111111111111111111111111111111111111111"
	github.AddRepo("acme/widgets")
	github.AddCommit("acme/widgets", base)
	github.AddCommit("acme/widgets", head, base)
	github.SetBranch("acme/widgets", "main", base)
	github.AddPull("acme/widgets", githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "main"})

	dir := t.TempDir()
	files := map[string]string{
		"job.yaml": fmt.Sprintf(`name: reported
environment: {type: sandbox, provider_config: %s}
models:
  m: {api: openai-chat, model: big, base_url: "%s", api_key: "${REAL_KEY}", record_to: tapes}
agents:
  - name: asker
    model: m
    files: [./agent]
    execute: bash /agent/run.sh
datasets:
  - path: evals
`, configs["sandbox"], provider.URL),
		"event.json": fmt.Sprintf(`{"pull_request": {"number": 7, "head": {"sha": %q, "ref": "change", "repo": {"full_name": "acme/widgets", "fork": false}},
			"base": {"ref": "main"}}, "repository": {"full_name": "acme/widgets", "default_branch": "main"}}`, head),
		"agent/ask.sh": askingAgent,
		"agent/say.sh": saying,
		"agent/run.sh": `. /agent/say.sh
for form in plain base64 escaped percent; do bash /agent/ask.sh 1 "$form"; done
forms; forms >&2
mkdir -p "/logs/agent/$key.d" /logs/agent/more
forms >"/logs/agent/$key.d/$key.txt"
forms >"/logs/agent/more/$(hexed).txt"
forms >"/logs/agent/more/$(printf %s "$key" | base64 -w0).txt"
ln -s "$key" /logs/agent/more/link
printf '%s' "$key" >/logs/agent/cost_usd.txt
flood '\n'; flood ' ' >&2
if [ -n "$FAILS" ]; then bash /agent/ask.sh 1 "fail escaped"; exit 3; fi
`,
	}
	tests := map[string]string{
		"files":  `forms >"/logs/verifier/$key.txt"; echo 0 >/logs/verifier/reward.txt`,
		"tables": `printf '{"reward": 0, "%s": 0.5, "%s": 1}' "$key" "$(hexed | sed 's/../\\u00&/g')" >/logs/verifier/reward.json`,
		"number": `printf '%s' "$key" >/logs/verifier/reward.txt`,
		"broken": `forms >/logs/verifier/reward.json`,
		"exit":   `flood '\n'; forms; forms >&2; flood ' ' >&2; exit 4`,
		"ctrf": `printf '{"results":{"tool":{"name":"%s"},"tests":[{"name":"t %s","suite":["a","%s"],"status":"failed","duration":1,"message":"m %s","trace":"%s"}]}}' \
			"$key" "$key" "$key" "$(hexed | sed 's/../\\u00&/g')" "$(flood ' ')" >/logs/verifier/ctrf.json; echo 0 >/logs/verifier/reward.txt`,
		"pieces": `printf '<testsuites><testsuite name="s"><testcase name="%s" classname="c"><failure message="m">%s<![CDATA[%s]]><!-- -->%s<![CDATA[%s]]></failure></testcase></testsuite></testsuites>' \
			"$(hexed | sed 's/../\&#x&;/g')" sk-nob ody+may= 'see&amp;735' '50_119*' >/logs/verifier/junit.xml; echo 0 >/logs/verifier/reward.txt`,
	}
	for name, script := range tests {
		files["evals/"+name+"/task.toml"] = "version = \"1.0\"\n[environment]\ndocker_image = \"" + testenv.Image + "\"\nnetwork = \"none\"\n"
		files["evals/"+name+"/instruction.md"] = "Ask.\n"
		files["evals/"+name+"/tests/test.sh"] = ". /agent/say.sh\n" + script + "\n"
	}
	files["evals/agent-fails/task.toml"] = strings.Replace(files["evals/files/task.toml"], "[environment]\n", "[environment]\nenv = {FAILS = \"yes\"}\n", 1)
	files["evals/agent-fails/instruction.md"] = "Ask.\n"
	files["evals/agent-fails/tests/test.sh"] = "echo 1 >/logs/verifier/reward.txt\n"
	for path, text := range files {
		path := filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GITHUB_") || strings.HasPrefix(v, "OTEL_") })
	env = append(env,
		"GITHUB_ACTIONS=true", "GITHUB_REPOSITORY=acme/widgets", "GITHUB_EVENT_NAME=pull_request", "GITHUB_EVENT_PATH="+filepath.Join(dir, "event.json"),
		"GITHUB_API_URL="+github.URL, "GITHUB_SERVER_URL=https://github.com", "GITHUB_SHA="+head, "GITHUB_REF=refs/pull/7/merge", "GITHUB_BASE_REF=main",
		"GITHUB_HEAD_REF=change", "GITHUB_RUN_ID=42", "GITHUB_RUN_NUMBER=9", "GITHUB_RUN_ATTEMPT=1", "GITHUB_WORKFLOW_REF=acme/widgets/.github/workflows/agent.yml@refs/pull/7/merge",
		"GITHUB_OUTPUT="+filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"), "GITHUB_TOKEN="+githubtest.WriteToken,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true")
	shown := func(env []string, args ...string) string {
		t.Helper()
		c := exec.Command(binary, args...)
		c.Dir, c.Env = dir, env
		out, _ := c.CombinedOutput() // many of these end with an exit code that is not 0
		search(t, "rollout "+strings.Join(args, " "), out)
		return string(out)
	}
	job := filepath.Join("jobs", "reported")
	out := shown(append(env, "REAL_KEY="+escapedKey), "run", "job.yaml", "--comment", "always", "--markdown", "report.md", "--junit", "junit.xml", "--report-json", "report.json")
	for _, part := range []string{"::error", "agent-fails", "***"} {
		if !strings.Contains(out, part) {
			t.Errorf("the output lacks %q:\n%.20000s", part, out)
		}
	}
	// Data read from disk must not need the key for redaction.
	for _, format := range []string{"annotations", "comment", "html", "json", "junit", "markdown"} {
		shown(env, "report", job, "--format", format, "--github", "off")
	}
	for _, format := range []string{"outputs", "jsonl", "csv", "sft", "atif"} {
		if text := shown(env, "export", job, "--format", format); !strings.Contains(text, "***") && format != "csv" && format != "jsonl" {
			t.Errorf("the export %s says nothing of what was hidden:\n%.5000s", format, text)
		}
	}
	comments := github.Comments("acme/widgets", 7)
	if len(comments) != 1 {
		t.Fatalf("there are %d comments", len(comments))
	}
	search(t, "the comment", []byte(comments[0].Body))
	for _, r := range github.Seen() {
		search(t, "requests to GitHub", []byte(r))
	}
	spans := sent.all()
	if !bytes.Contains(spans, []byte("gen_ai.output.messages")) || !bytes.Contains(spans, []byte("***")) {
		t.Errorf("the collector got %d bytes, without messages", len(spans))
	}
	search(t, "the spans", spans)
	for _, name := range []string{"summary", "output", "report.md", "junit.xml", "report.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: there is none: %v", name, err)
		}
	}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		below, _ := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if below == "evals" || below == "agent" {
			return filepath.SkipDir
		}
		search(t, "the name of a file", []byte(below))
		if d.Type()&os.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			search(t, "the link "+below, []byte(to))
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		search(t, below, text)
		return err
	}))
}

var (
	jsonEscape    = regexp.MustCompile(`\\\\*u00([0-9a-fA-F]{2})`)
	percentEscape = regexp.MustCompile(`%([0-9a-fA-F]{2})`)
)

// search fails the test if a text contains the key, or half of it, in plain or in one of the
// encodings that the agent and the provider of the test use.
func search(t *testing.T, where string, text []byte) {
	t.Helper()
	decode := func(escape *regexp.Regexp, s string) string {
		return escape.ReplaceAllStringFunc(s, func(one string) string {
			b, _ := hex.DecodeString(one[len(one)-2:]) // the pattern has two digits
			return string(b)
		})
	}
	const half = len(escapedKey) / 2
	hexed := hex.EncodeToString([]byte(escapedKey))
	parts := []string{escapedKey[:half], escapedKey[half:], hexed[:2*half], hexed[2*half:]}
	for before := range 3 {
		parts = append(parts, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + escapedKey))[4:4+half])
	}
	plain := string(text)
	unquoted := decode(jsonEscape, plain)
	for _, form := range []string{
		plain, unquoted, html.UnescapeString(plain), html.UnescapeString(unquoted), decode(percentEscape, plain), strings.ReplaceAll(html.UnescapeString(unquoted), `\`, ""),
	} {
		for _, part := range parts {
			if i := strings.Index(form, part); i >= 0 {
				t.Errorf("%s: it has %q: …%.200s", where, part, form[max(0, i-100):])
				return
			}
		}
	}
}

// spansSent collects the decompressed requests to an OpenTelemetry collector.
type spansSent struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spansSent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	_, _ = s.text.ReadFrom(body) // the content is searched
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (s *spansSent) all() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.text.Bytes())
}
