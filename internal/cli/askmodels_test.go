package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/model/scripted"
)

const modelKey = "sk-of-the-host-5551234"

// provider serves a scripted model at /good, and at other paths providers that fail in many ways.
func provider(t *testing.T) *httptest.Server {
	t.Helper()
	script := scripted.Script{Answers: []scripted.Answer{{Text: "Hello", Model: "big-model-2026-01-01", Usage: scripted.Usage{Input: 3, Output: 1}}}}
	if err := script.Check(); err != nil {
		t.Fatal(err)
	}
	model := scripted.New(script)
	mux := http.NewServeMux()
	mux.Handle("/good/", http.StripPrefix("/good", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key"); !strings.Contains(key, modelKey) {
			t.Errorf("the key is %q", key)
		}
		r.RequestURI = ""
		answer, err := model.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		var b bytes.Buffer
		_, _ = b.ReadFrom(answer.Body)
		_, _ = w.Write(b.Bytes())
	})))
	fails := func(path string, status int, body string) {
		mux.HandleFunc("/"+path+"/", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	fails("key", 401, `{"error":{"message":"Incorrect API key provided: `+modelKey+` (`+base64.StdEncoding.EncodeToString([]byte(modelKey))+`)"}}`)
	fails("name", 404, `{"error":{"message":"The model big-model does not exist","code":"model_not_found"}}`)
	fails("path", 404, `404 page not found`)
	fails("page", 200, `<html>Welcome</html>`)
	fails("moved", 302, ``)
	fails("poor", 429, `{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}`)
	fails("busy", 429, `{"error":{"message":"slow down"}}`)
	fails("down", 500, `{"error":{"message":"overheated"}}`)
	fails("thinks", 400, `{"error":{"message":"Could not finish the message because max_tokens or model output limit was reached."}}`)
	fails("silent", 200, `{"model":"big","choices":[{"finish_reason":"length","message":{"content":"x"},"logprobs":null}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	fails("strict", 400, `{"error":{"message":"Unrecognized request argument supplied: return_token_ids"}}`)
	mux.HandleFunc("/new/", func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		if !strings.Contains(b.String(), "max_completion_tokens") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`)
			return
		}
		fmt.Fprint(w, `{"model":"o9","choices":[{"finish_reason":"length","message":{"content":""}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func askModels(t *testing.T, dir string, args ...string) said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := Env{
		Providers: offered, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now,
		Getenv: func(name string) (string, bool) { return modelKey, name == "KEY" },
	}
	code := Main(t.Context(), context.Background(), env, append([]string{"validate", "job.yaml", "--models"}, args...))
	o := said{code, stdout.String(), stderr.String()}
	for _, hidden := range []string{modelKey, base64.StdEncoding.EncodeToString([]byte(modelKey))} {
		if strings.Contains(o.stdout+o.stderr, hidden) {
			t.Errorf("the key is printed:\n%s%s", o.stdout, o.stderr)
		}
	}
	return o
}

func TestValidateAsksModels(t *testing.T) {
	server := provider(t)
	nobody := httptest.NewServer(nil)
	nobody.Close()
	for name, one := range map[string]struct {
		model string // keys of the model, with % for the server
		code  int
		says  string
	}{
		"anthropic":    {"{api: anthropic, base_url: %/good, price: {input: 3, output: 0.25}}", 0, "model m: big-model-2026-01-01 answered in 0.0 s; $3 for a million tokens of input, $0.25 of output\njob.yaml is valid"},
		"chat":         {"{api: openai-chat, base_url: %/good/v1}", 0, "price not known"},
		"responses":    {"{api: openai-responses, base_url: %/good}", 0, "big-model-2026-01-01 answered"},
		"google":       {"{api: google, base_url: %/good}", 0, "big-model-2026-01-01 answered"},
		"new names":    {"{api: openai-chat, base_url: %/new}", 0, "o9 answered"},
		"another name": {"{api: openai-chat, base_url: %/new}", 0, `warning: models.m.model: the provider was asked for "big-model" and answered as "o9"`},
		"thinks":       {"{api: openai-chat, base_url: %/thinks}", 0, "big-model answered"},
		"tokens":       {"{api: openai-chat, record_tokens: true, base_url: %/good/v1}", 0, "big-model-2026-01-01 answered"},
		"no tokens":    {"{api: openai-chat, record_tokens: true, base_url: %/silent}", 2, "models.m.record_tokens: the server answers without the ids of tokens and a log probability for each (remove it, or use a server that knows return_token_ids, such as vLLM or SGLang)"},
		"no such keys": {"{api: openai-chat, record_tokens: true, base_url: %/strict}", 2, "models.m.record_tokens: the server refuses to state the ids of tokens and their log probabilities: Unrecognized request argument supplied: return_token_ids"},
		"wrong key":    {"{api: openai-chat, base_url: %/key}", 2, "job.yaml:4:79: models.m.api_key: the provider does not accept the key (HTTP status 401): Incorrect API key provided: ***"},
		"wrong name":   {"{api: openai-chat, base_url: %/name}", 2, `models.m.model: the provider does not know the model "big-model" (HTTP status 404): The model big-model does not exist (write the name that the provider knows)`},
		"wrong path":   {"{api: openai-chat, base_url: %/path}", 2, "models.m.base_url: there is no API openai-chat below this URL (HTTP status 404)"},
		"a page":       {"{api: anthropic, base_url: %/page}", 2, "models.m.base_url: the server at "},
		"moved":        {"{api: anthropic, base_url: %/moved}", 2, "redirects to another address (HTTP status 302)"},
		"no money":     {"{api: openai-chat, base_url: %/poor}", 2, "models.m.api_key: the account of the key has no credit left"},
		"busy":         {"{api: openai-chat, base_url: %/busy}", 0, "warning: models.m: the provider refuses because of a rate limit now"},
		"down":         {"{api: openai-chat, base_url: %/down}", 2, "models.m: the provider answered with an error (HTTP status 500): overheated (try again later)"},
		"nobody there": {"{api: openai-chat, base_url: " + nobody.URL + "}", 2, "models.m.base_url: the provider at 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTask(t, dir, "evals/one")
			keys := strings.Replace(strings.Replace(one.model, "%", server.URL, 1), "}", ", model: big-model, api_key: \"${KEY}\"}", 1)
			if strings.Contains(one.model, "price") {
				keys = strings.Replace(strings.Replace(one.model, "%", server.URL, 1), "{api", "{model: big-model, api_key: \"${KEY}\", api", 1)
			}
			write(t, dir, "job.yaml", "environment: {type: fake}\nagents: [{name: a, model: m, execute: \"true\"}]\nmodels:\n  m: "+keys+"\n  unused: {api: anthropic, api_key: \"${MISSING}\"}\ndatasets: [{path: evals}]\n")
			o := askModels(t, dir)
			says := strings.Replace(one.says, ":79:", fmt.Sprintf(":%d:", strings.Index("  m: "+keys, "\"${KEY}")+1), 1)
			stdout := regexp.MustCompile(`answered in [0-9.]+ s`).ReplaceAllString(o.stdout, "answered in 0.0 s")
			if o.code != one.code || !strings.Contains(stdout, says) {
				t.Errorf("exit code %d, want %d; %q is missing:\n%s%s", o.code, one.code, says, o.stdout, o.stderr)
			}
			var found struct {
				Valid  bool `json:"valid"`
				Models []struct {
					LatencySec *float64 `json:"latency_sec"`
					Error      string   `json:"error"`
				} `json:"models"`
			}
			if o := askModels(t, dir, "--format", "json"); json.Unmarshal([]byte(o.stdout), &found) != nil || found.Valid != (one.code == 0) || len(found.Models) != 1 {
				t.Fatalf("JSON: %s", o.stdout)
			}
			if failed := found.Models[0].LatencySec == nil; failed != (found.Models[0].Error != "") {
				t.Errorf("JSON: %+v", found.Models[0])
			}
		})
	}
}

// A secret that was written to a file often ends with a line break, which no header can have. The
// URL is not to blame.
func TestKeysWithALineBreakAreNamed(t *testing.T) {
	dir := t.TempDir()
	writeTask(t, dir, "evals/one")
	for keys, says := range map[string]string{
		`api_key: "${KEY}"`:             "job.yaml:4:46: models.m.api_key: the value ends with a line break, which no header can have (remove the line break from the variable or the secret: printf writes none, echo does)",
		`headers: {X-Team: "a${KEY}b"}`: "models.m.headers.X-Team: the value has a line break or another control character, which no header can have",
	} {
		write(t, dir, "job.yaml", "environment: {type: fake}\nagents: [{name: a, model: m, execute: \"true\"}]\nmodels:\n  m: {api: openai-chat, model: big, "+keys+"}\ndatasets: [{path: evals}]\n")
		for _, verb := range [][]string{{"validate", "job.yaml"}, {"validate", "job.yaml", "--models"}, {"run", "job.yaml"}} {
			var stdout, stderr bytes.Buffer
			env := Env{
				Providers: offered, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now,
				Getenv: func(name string) (string, bool) { return modelKey + "\n", name == "KEY" },
			}
			code := Main(t.Context(), context.Background(), env, verb)
			if all := stdout.String() + stderr.String(); code != command.ExitUsage || !strings.Contains(all, says) || strings.Contains(all, "base_url") || strings.Contains(all, modelKey) {
				t.Errorf("%q: exit code %d:\n%s", verb, code, all)
			}
		}
	}
}

// The answer to validate belongs to no trial, so nothing could replay it.
func TestValidateRecordsNothing(t *testing.T) {
	server := provider(t)
	dir := t.TempDir()
	writeTask(t, dir, "evals/one")
	write(t, dir, "job.yaml", "environment: {type: fake}\nagents: [{name: a, model: m, execute: \"true\"}]\nmodels:\n  m: {api: openai-chat, model: big-model, api_key: \"${KEY}\", base_url: \""+server.URL+"/good/v1\", record_to: tapes}\ndatasets: [{path: evals}]\n")
	if o := askModels(t, dir); o.code != 0 || !strings.Contains(o.stdout, "big-model-2026-01-01 answered") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "tapes")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("validate wrote into the directory of record_to: %v", err)
	}
}

func TestValidateAsksModelsWithoutANetwork(t *testing.T) {
	dir := t.TempDir()
	writeTask(t, dir, "evals/one")
	write(t, dir, "answers.yaml", "answers: [{text: hello}]\n")
	write(t, dir, "job.yaml", "environment: {type: fake}\nagents: [{name: a, model: m, execute: \"true\"}]\nmodels:\n  m: {api: scripted, script: answers.yaml}\ndatasets: [{path: evals}]\n")
	if o := askModels(t, dir); o.code != 0 || !strings.Contains(o.stdout, "model m: m answered in 0.0 s; price not known") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	askModels(t, dir, "--run").check(t, command.ExitUsage, "--models has no meaning with --run")
	write(t, dir, "job.yaml", "environment: {type: fake}\nagents: [{name: nop}]\ndatasets: [{path: evals}]\n")
	if o := askModels(t, dir); o.code != 0 || !strings.Contains(o.stdout, "no agent has a model that could be asked") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
}
