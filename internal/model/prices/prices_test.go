package prices

import (
	"math"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/model"
)

func day(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestCost(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	const anthropic = "https://api.anthropic.com"
	for name, c := range map[string]struct {
		url, model, when string
		u                model.Usage
		want             float64 // -1: not known
	}{
		"input and output":                   {anthropic, "claude-sonnet-4-5-20250929", "2026-08-01T00:00:00Z", model.Usage{Input: n(1000), Output: n(100)}, (1000*3 + 100*15) / 1e6},
		"caches":                             {anthropic, "claude-sonnet-4-5", "2026-08-01T00:00:00Z", model.Usage{Input: n(1000), Cached: n(600), CacheWrite: n(300), CacheWriteHour: n(100), Output: n(0)}, (100*3 + 600*0.3 + 200*3.75 + 100*6) / 1e6},
		"a long input has another price":     {anthropic, "claude-sonnet-4-5", "2026-08-01T00:00:00Z", model.Usage{Input: n(200_001), Output: n(10)}, (200_001*6 + 10*22.5) / 1e6},
		"up to the limit it has not":         {anthropic, "claude-sonnet-4-5", "2026-08-01T00:00:00Z", model.Usage{Input: n(200_000), Output: n(10)}, (200_000*3 + 10*15) / 1e6},
		"before a change of prices":          {anthropic, "claude-sonnet-5", "2026-08-31T23:59:59Z", model.Usage{Input: n(1000), Output: n(100)}, (1000*2 + 100*10) / 1e6},
		"after a change of prices":           {anthropic, "claude-sonnet-5", "2026-09-01T00:00:00Z", model.Usage{Input: n(1000), Output: n(100)}, (1000*3 + 100*15) / 1e6},
		"by day":                             {"https://api.deepseek.com/v1", "deepseek-chat", "2025-06-10T12:00:00Z", model.Usage{Input: n(1000), Output: n(1000)}, -2},
		"an unknown model":                   {anthropic, "claude-of-next-year", "2026-08-01T00:00:00Z", model.Usage{Input: n(1000), Output: n(100)}, -1},
		"a proxy of one's own":               {"https://llm.example.com", "claude-sonnet-4-5", "2026-08-01T00:00:00Z", model.Usage{Input: n(1000), Output: n(100)}, -1},
		"another's host that begins alike":   {"https://api.anthropic.com.evil.example", "gpt-4o", "2026-08-01T00:00:00Z", model.Usage{Input: n(1000), Output: n(100)}, -1},
		"unknown tokens":                     {anthropic, "claude-sonnet-4-5", "2026-08-01T00:00:00Z", model.Usage{Output: n(100)}, -1},
		"the provider's own figure":          {"https://openrouter.ai/api", "anything", "2026-08-01T00:00:00Z", model.Usage{CostUSD: new(0.25)}, 0.25},
		"more cached than read is not below": {anthropic, "claude-sonnet-4-5", "2026-08-01T00:00:00Z", model.Usage{Input: n(10), Cached: n(1000), Output: n(0)}, 10 * 0.3 / 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			got := Cost(c.url, c.model, day(c.when), c.u)
			switch {
			case c.want == -2:
				if got == nil || *got <= 0 {
					t.Errorf("cost %v", got)
				}
			case c.want == -1:
				if got != nil {
					t.Errorf("cost %v, want none", *got)
				}
			case got == nil || math.Abs(*got-c.want) > 1e-12:
				t.Errorf("cost %v, want %v", got, c.want)
			}
		})
	}
}

// TestOffPeakPrices checks prices that depend on the time of the day.
func TestOffPeakPrices(t *testing.T) {
	found := false
	for _, p := range table() {
		for _, m := range p.Models {
			for _, s := range m.Prices {
				if s.When.Begin == "" {
					continue
				}
				found = true
				if !s.holds(day("2026-08-01T00:30:00Z")) || s.holds(day("2026-08-01T16:30:00Z")) || s.holds(day("2026-08-01T00:29:59Z")) {
					t.Errorf("%s %s: %+v", p.ID, m.ID, s.When)
				}
			}
		}
	}
	if !found {
		t.Error("no price depends on the time")
	}
}

// TestTable checks that every price can be found by the name of its model.
func TestTable(t *testing.T) {
	models := 0
	for _, p := range table() {
		for _, m := range p.Models {
			models++
			if len(m.Prices) == 0 {
				t.Errorf("%s %s has no price", p.ID, m.ID)
			}
			for _, s := range m.Prices {
				for _, r := range []*rate{s.Prices.Input, s.Prices.Output, s.Prices.CacheRead, s.Prices.CacheWrite} {
					if r != nil && (r.Base < 0 || r.Base > 10_000) {
						t.Errorf("%s %s costs %v", p.ID, m.ID, r.Base)
					}
				}
			}
		}
	}
	if models < 1000 {
		t.Errorf("%d models", models)
	}
}
