package config_test

import (
	"math"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/model"
)

// Caches that are kept for an hour and web searches have their own prices, apart from those of
// other input.
func TestPricesOfCachesAndSearches(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	usage := model.Usage{Input: n(1000), Output: n(100), Cached: n(200), CacheWrite: n(300), CacheWriteHour: n(100), Searches: n(3)}
	for name, c := range map[string]struct {
		price    config.Price
		millions float64
		unpriced bool
	}{
		"the defaults":           {config.Price{Input: 2, Output: 10}, 500*2 + 100*10 + 200*2 + 200*2 + 100*4, true},
		"a cache for an hour":    {config.Price{Input: 2, Output: 10, CacheWrite: new(3.0), CacheWriteHour: new(5.0)}, 500*2 + 100*10 + 200*2 + 200*3 + 100*5, true},
		"searches":               {config.Price{Input: 2, Output: 10, WebSearch: new(10.0)}, 500*2 + 100*10 + 200*2 + 200*2 + 100*4 + 3*10_000, false},
		"searches that are free": {config.Price{Input: 2, Output: 10, WebSearch: new(0.0)}, 500*2 + 100*10 + 200*2 + 200*2 + 100*4, false},
	} {
		m := config.Model{Price: &c.price}
		if got := m.Cost("m", time.Time{}, usage); got == nil || math.Abs(*got-c.millions/1e6) > 1e-12 {
			t.Errorf("%s: %v, want %g", name, got, c.millions/1e6)
		}
		if got := m.Unpriced("m", time.Time{}, usage); got != c.unpriced {
			t.Errorf("%s: a part has no price: %v", name, got)
		}
	}
	most := usage
	most.CacheWriteHour = n(1000) // more than was written
	if got := (config.Model{Price: &config.Price{Input: 2, Output: 10}}).Cost("m", time.Time{}, most); got == nil || math.Abs(*got-(500*2+100*10+200*2+300*4)/1e6) > 1e-12 {
		t.Errorf("more is kept for an hour than was written: %v", got)
	}
}

// The keys of the job file set those prices.
func TestPriceKeys(t *testing.T) {
	for key, get := range map[string]func(config.Price) *float64{
		"cache_write_1h": func(p config.Price) *float64 { return p.CacheWriteHour },
		"web_search":     func(p config.Price) *float64 { return p.WebSearch },
	} {
		l, _, err := load(t, "models: {m: {api: openai-chat, model: big, price: {input: 1, output: 2, "+key+": 7.5}}}\nagents: [{name: a, model: m, execute: run}]\ndatasets: [{path: dataset}]", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := get(*l.Job.Models["m"].Price); got == nil || *got != 7.5 {
			t.Errorf("%s: %v", key, got)
		}
		if _, _, err := load(t, "models: {m: {api: openai-chat, model: big, price: {input: 1, output: 2, "+key+": -1}}}\nagents: [{name: a, model: m, execute: run}]\ndatasets: [{path: dataset}]", nil); err == nil {
			t.Errorf("%s: -1 is a price", key)
		}
	}
}
