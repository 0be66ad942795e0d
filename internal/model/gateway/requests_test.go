package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
	"github.com/org/rollout-action/internal/model/gateway"
)

// Servers differ in which of two equal keys they take, so the gateway could set another model, or
// check other tools, than the server reads.
func TestOneKeyTwiceIsRefused(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		twice := map[string]string{
			"two models": `"model":"cheap","model":"dear",`, "an escape": `"model":"cheap","mod\u0065l":"dear",`, "another case": `"Model":"dear",`,
			"two lists of tools": `"tools":[],"tools":[{"type":"web_search"}],`, "two temperatures": `"temperature":0,"temperature":1,`, "two types": `"tools":[{"type":"function","type":"web_search"}],`,
		}
		if api == google.Name {
			twice = map[string]string{"two lists of tools": `"tools":[],"tools":[{"googleSearch":{}}],`, "two configs": `"generationConfig":{},"generation_config":{},`, "two temperatures": `"generationConfig":{"temperature":0,"temperature":1},`}
		}
		for name, fields := range twice {
			r := newRig(t, api, saying("ok"), func(c *gateway.Config, _ *gateway.Options) { c.Sampling = map[string]any{"temperature": 0.5} })
			body := strings.Replace(strings.Replace(askBody(api, "go"), `"model":"asked",`, "", 1), "{", "{"+fields, 1)
			if got := r.do(http.MethodPost, paths[api], body); got.status != http.StatusBadRequest || !strings.Contains(got.body, "twice") || len(r.sent()) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
			report := r.session.Seal()
			if f := report.Failure; f == nil || f.Kind != model.FailedRefused || len(report.Denied) != 1 || report.Calls != 0 || len(r.kept()) != 1 {
				t.Errorf("%s: %+v", name, report)
			}
		}
	})
}

// Google reads both ways of writing a name, so imposed sampling takes the place of either.
func TestSamplingIsImposedWhateverNamesAreWritten(t *testing.T) {
	r := newRig(t, google.Name, saying("ok"), func(c *gateway.Config, _ *gateway.Options) {
		c.Sampling = map[string]any{"top_p": 0.5, "temperature": 0}
	})
	body := strings.Replace(askBody(google.Name, "go"), "{", `{"generation_config":{"top_p":1,"seed":7},`, 1)
	if got := r.do(http.MethodPost, paths[google.Name], body); got.status != http.StatusOK || !strings.Contains(r.texts()[0], `"generation_config":{"top_p":0.5,"seed":7,"temperature":0}`) {
		t.Errorf("%+v: %q", got, r.texts())
	}
}

func TestFieldsThatNameOtherModelsAreRemoved(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		r := newRig(t, api, saying("ok"), nil)
		body := strings.Replace(askBody(api, "go"), "{", `{"models":["dear"],"fallbacks":[{"model":"dear"}],"extra_body":{"model":"dear"},`, 1)
		join := "?"
		if strings.Contains(paths[api], "?") {
			join = "&"
		}
		if got := r.do(http.MethodPost, paths[api]+join+"model=dear", body); got.status != http.StatusOK {
			t.Fatalf("%+v", got)
		}
		if sent := r.texts()[0] + r.sent()[0].URL.String(); strings.Contains(sent, "dear") {
			t.Errorf("sent %s", sent)
		}
		const want = "models fallbacks extra_body"
		if report := r.session.Seal(); strings.Join(report.Removed, " ") != want || strings.Join(r.kept()[0].Removed, " ") != want || len(report.Stripped) != 0 {
			t.Errorf("removed %q", report.Removed)
		}
	})
	r := newRig(t, responses.Name, saying("ok"), nil)
	if got := r.do(http.MethodPost, paths[responses.Name], `{"model":"m","prompt":{"id":"pmpt_1"}}`); got.status != http.StatusBadRequest || len(r.sent()) != 0 {
		t.Errorf("%+v", got)
	}
}

// A provider that fetches a picture sends the agent's data in the URL to the web, also when it only
// counts tokens.
func TestFilesByURLAreRemoved(t *testing.T) {
	for api, one := range map[model.API]struct{ body, name, count string }{
		anthropic.Name: {`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x"}},{"type":"document","source":{"type":"url","url":"https://x"}}]}]}`, "image by URL, document by URL", "/v1/messages/count_tokens"},
		chat.Name:      {`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]}`, "image_url by URL", ""},
		responses.Name: {`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x"},{"type":"input_image","image_url":"https://x"}]}]}`, "input_file by URL, input_image by URL", "/v1/responses/input_tokens"},
		google.Name:    {`{"contents":[{"role":"user","parts":[{"fileData":{"fileUri":"https://x"}},{"text":"hi"}]}]}`, "fileData by URL", "/v1beta/models/m:countTokens"},
	} {
		for _, restricted := range []bool{true, false} {
			r := newRig(t, api, saying("ok"), func(_ *gateway.Config, o *gateway.Options) { o.Restricted = restricted })
			for _, path := range []string{paths[api], one.count} {
				if path == "" {
					continue
				}
				if got := r.do(http.MethodPost, path, one.body); got.status != http.StatusOK {
					t.Errorf("%s: %+v", path, got)
				}
				sent := r.texts()[len(r.texts())-1]
				if strings.Contains(sent, "https://x") == restricted || strings.Contains(sent, "has removed: "+strings.Split(one.name, ",")[0]) != restricted {
					t.Errorf("%s, restricted %t: sent %s", path, restricted, sent)
				}
			}
			if got := strings.Join(r.session.Seal().Stripped, ", "); restricted && got != one.name || !restricted && got != "" {
				t.Errorf("%s, restricted %t: removed %s", api, restricted, got)
			}
		}
	}
}

// Tools that the client runs pass, however they are offered; the provider's do not.
func TestToolsOfTheClientPass(t *testing.T) {
	for api, one := range map[model.API]struct{ kept, stripped, names string }{
		responses.Name: {
			`{"type":"tool_search","execution":"client","parameters":{}},{"type":"shell","environment":{"type":"local"}},{"type":"namespace","name":"mcp__docs","tools":[{"type":"function","name":"f"}]}`,
			`,{"type":"shell","environment":{"type":"container_auto"}},{"type":"tool_search"},{"type":"code_interpreter"},{"type":"namespace","tools":[{"type":"web_search"}]}`,
			"shell tool_search code_interpreter web_search",
		},
		anthropic.Name: {`{"name":"f","input_schema":{}},{"type":"computer_20250124","name":"computer"},{"type":"browser_toolset_20260801"}`, `,{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"mcp_toolset"}`, "web_fetch_20250910 mcp_toolset"},
	} {
		r := newRig(t, api, saying("ok"), func(_ *gateway.Config, o *gateway.Options) { o.Restricted = true })
		body := strings.Replace(askBody(api, "go"), "{", `{"tools":[`+one.kept+one.stripped+`],`, 1)
		if got := r.do(http.MethodPost, paths[api], body); got.status != http.StatusOK || !strings.Contains(r.texts()[0], `"tools":[`+one.kept+`]`) {
			t.Errorf("%+v: sent %q", got, r.texts())
		}
		if got := strings.Join(r.session.Seal().Stripped, " "); got != one.names {
			t.Errorf("stripped %s", got)
		}
	}
}

// Only the job decides on the account of a request, and where proxies send it.
func TestHeadersOfAccountsAreTheJobs(t *testing.T) {
	eachAPI(t, func(t *testing.T, api model.API) {
		r := newRig(t, api, saying("ok"), func(c *gateway.Config, _ *gateway.Options) {
			c.Headers = map[string]string{"OpenAI-Organization": "org-job", "x-portkey-config": "of-the-job"}
		})
		agents := []string{
			"OpenAI-Organization", "OpenAI-Project", "X-Goog-User-Project", "x-portkey-config", "x-portkey-virtual-key", "Helicone-Auth", "Helicone-Target-Url", "cf-aig-authorization",
			"x-litellm-api-key", "x-litellm-tags", "ChatGPT-Account-Id", "Anthropic-Workspace-Id", "Anthropic-User-Profile-Id", "Ocp-Apim-Subscription-Key", "X-Amz-Security-Token",
			"X-HTTP-Method-Override", "X-Original-URL", "azureml-model-deployment", "Proxy-Authorization",
		}
		passed := []string{"Anthropic-Beta", "OpenAI-Beta", "X-Goog-Api-Client", "X-Stainless-Lang", "Session-Id", "Idempotency-Key", "X-Codex-Turn-Metadata", "HTTP-Referer"}
		var header []string
		for _, name := range append(agents, passed...) {
			header = append(header, name, "of-the-agent")
		}
		if got := r.turn(api, "go", header...); got.status != http.StatusOK {
			t.Fatalf("%+v", got)
		}
		h := r.sent()[0].Header
		for _, name := range agents {
			if h.Get(name) == "of-the-agent" {
				t.Errorf("%s is passed on", name)
			}
		}
		for _, name := range passed {
			if h.Get(name) != "of-the-agent" {
				t.Errorf("%s is not passed on", name)
			}
		}
		if h.Get("OpenAI-Organization") != "org-job" || h.Get("X-Portkey-Config") != "of-the-job" {
			t.Errorf("of the job: %v", h)
		}
	})
}

// A deeply nested body or answer must not crash the process, and with it all trials.
func TestDeepJSONIsRefused(t *testing.T) {
	deep := `{"messages":` + strings.Repeat("[", 20<<20)
	r := newRig(t, chat.Name, saying("ok"), nil)
	if got := r.do(http.MethodPost, paths[chat.Name], deep); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
	r = newRigWith(t, chat.Name, fixed(http.StatusOK, "application/json", deep), nil)
	if got := r.turn(chat.Name, "go"); got.body != deep || r.session.Seal().Failure == nil {
		t.Errorf("%v: %d bytes", got.err, len(got.body))
	}
	r = newRigWith(t, chat.Name, fixed(http.StatusOK, "text/event-stream", "data: "+deep+"\n\ndata: [DONE]\n\n"), nil)
	if got := r.turn(chat.Name, "go"); got.err != nil {
		t.Errorf("%v", got.err)
	}
}
