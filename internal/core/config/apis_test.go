package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
)

func TestModelsHaveEveryAPI(t *testing.T) {
	field, _ := reflect.TypeFor[Model]().FieldByName("API")
	var want []string
	for _, api := range append(slices.Clone(model.APIs), model.Scripted) {
		want = append(want, string(api))
	}
	if got := strings.Split(field.Tag.Get("enum"), ","); !slices.Equal(got, want) {
		t.Errorf("models[].api is one of %q, want %q", got, want)
	}
}
