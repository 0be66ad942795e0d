package api_test

import (
	"maps"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/api/anthropic"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/api/google"
	"github.com/org/rollout-action/internal/model/api/responses"
)

func TestEveryAPIHasAllFacts(t *testing.T) {
	for _, p := range api.All {
		f := p.Facts()
		if f.Name == "" || f.BaseURL == "" || f.Version == "" || f.Author == "" || f.KeyHeader == "" || f.Clients == nil || f.List == nil || f.RefusalCode == 0 ||
			f.Truncated == "" || f.Overflow == "" || len(f.Overflows) == 0 || len(f.Limits) == 0 || len(f.Sampling) == 0 || f.Probe.Path == "" || f.Probe.Body == "" {
			t.Errorf("%s: %+v", f.Name, f)
		}
		if got, action := api.Of(f.Probe.Path); got != p || action != model.ActionTurn {
			t.Errorf("the probe of %s is a request of %T (%s)", f.Name, got, action)
		}
		if api.Named(f.Name) != p {
			t.Errorf("%s is the name of another API, too", f.Name)
		}
	}
}

// Each client needs the URL in its format, in its variables.
func TestVariablesGiveEachClientTheURLInItsFormat(t *testing.T) {
	const at = "http://127.0.0.1:40123"
	own := map[model.API]map[string]string{
		anthropic.Name: {"ANTHROPIC_BASE_URL": at, "ANTHROPIC_API_KEY": "token", "ANTHROPIC_MODEL": "big"},
		chat.Name:      {"OPENAI_BASE_URL": at + "/v1", "OPENAI_API_BASE": at + "/v1", "OPENAI_API_KEY": "token", "OPENAI_MODEL": "big"},
		responses.Name: {"OPENAI_BASE_URL": at + "/v1", "OPENAI_API_BASE": at + "/v1", "OPENAI_API_KEY": "token", "OPENAI_MODEL": "big"},
		google.Name:    {"GOOGLE_GEMINI_BASE_URL": at, "GEMINI_API_KEY": "token", "GEMINI_MODEL": "big"},
	}
	for name, want := range own {
		version := "/v1"
		if name == google.Name {
			version = "/v1beta"
		}
		want["ROLLOUT_MODEL_URL"], want["ROLLOUT_MODEL_KEY"], want["ROLLOUT_MODEL_NAME"], want["ROLLOUT_MODEL_API"] = at+version, "token", "big", string(name)
		if got := api.Environment(name, at, "token", "big"); !maps.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
