package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestARunSendsSpans runs a job whose agent has a scripted model, with a collector and without one.
func TestARunSendsSpans(t *testing.T) {
	var mu sync.Mutex
	var names []string
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var request coltrace.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(data, &request) != nil {
			http.Error(w, "no OTLP", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range request.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					names = append(names, s.GetName())
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	dir := t.TempDir()
	write(t, dir, "job.yaml", `environment: {type: fake}
models: {m: {api: scripted, script: answers.yaml}, g: {api: scripted, script: grader.yaml}}
agents: [{name: baseline, preset: shell, model: m}]
judges:
  - {name: one, agent: call, model: g, `+scored+`}
  - {name: two, model: g, source: reply, `+scored+`}
datasets: [{path: evals}]
`)
	write(t, dir, "answers.yaml", "answers: [{text: I write it., run: \"true\"}, {text: Done.}]\n")
	write(t, dir, "grader.yaml", "answers: [{text: '{\"score\": 1, \"reason\": \"So.\"}'}]\nrepeat: true\n")
	writeTask(t, dir, "evals/one")
	run := func(name string) said {
		var stdout, stderr bytes.Buffer
		env := Env{Providers: offered, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now, Getenv: os.LookupEnv}
		code := Main(t.Context(), context.Background(), env, []string{"run", "job.yaml", "--log-format", "plain", "--name", name, "--github", "off"})
		return said{code, stdout.String(), stderr.String()}
	}

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	s := run("one")
	s.check(t, 0)
	slices.Sort(names)
	if got, want := strings.Join(names, ", "), "chat g, chat g, chat m, chat m, environment_setup, invoke_agent baseline, invoke_agent one, invoke_agent two, trial evals/one, verifier"; got != want {
		t.Errorf("spans %s, want %s\n%s", got, want, s.stderr)
	}
	if strings.Contains(s.stderr, "OpenTelemetry") {
		t.Errorf("it warns: %s", s.stderr)
	}

	collector.Close()
	run("two").check(t, 0, "OpenTelemetry: 0 spans were sent, then: send spans: ")

	names = nil
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if s := run("three"); s.code != 0 || strings.Contains(s.stderr, "OpenTelemetry") {
		t.Errorf("%+v", s)
	}
}
