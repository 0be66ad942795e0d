package model

import "testing"

func TestEveryAPIHasAWholeEntry(t *testing.T) {
	if len(entries) != len(APIs) {
		t.Errorf("%d entries for %d APIs", len(entries), len(APIs))
	}
	for _, api := range APIs {
		e := entries[api]
		if e.protocol == nil || e.baseURL == "" || e.version == "" || e.provider == "" || e.clients == nil || e.list == nil || e.probePath == "" || e.probeBody == "" {
			t.Errorf("%s: %+v", api, e)
		}
		if got, action := APIOf(e.probePath); got != api || action != ActionTurn {
			t.Errorf("the probe of %s is a request of %s (%s)", api, got, action)
		}
	}
}
