package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
)

func TestModelsHaveEveryAPI(t *testing.T) {
	for _, r := range fields.Of(reflect.TypeFor[Model]()) {
		if r.Key != "api" {
			continue
		}
		for _, name := range append(api.Names(), model.Scripted) {
			if !slices.Contains(r.Enum, string(name)) {
				t.Errorf("models[].api is one of %q, without %s", r.Enum, name)
			}
		}
		return
	}
	t.Error("no key api")
}
