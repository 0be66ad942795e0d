package environment_test

import (
	"context"
	"errors"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

// bare is a provider without optional interfaces.
type bare struct{ environment.Provider }

func (bare) Name() string { return "bare" }

// some is one whose environments can have GPUs.
type some struct {
	bare
	chooses bool
}

func (s some) ChoosesGPUs() bool { return s.chooses }

func TestGPUsNeedAProviderThatHasThem(t *testing.T) {
	two := environment.Limits{GPUs: 2, GPUTypes: "H100"}
	for _, tc := range []struct {
		name     string
		provider environment.Provider
		limits   environment.Limits
		unchosen bool
		refused  bool
	}{
		{"none wanted", bare{}, environment.Limits{GPUTypes: "H100"}, false, false},
		{"none there", bare{}, two, false, true},
		{"any there", some{}, two, true, false},
		{"chosen", some{chooses: true}, two, false, false},
		{"any will do", some{}, environment.Limits{GPUs: 1}, false, false},
	} {
		unchosen, err := environment.CheckGPUs(tc.provider, tc.limits)
		if unchosen != tc.unchosen || (err != nil) != tc.refused {
			t.Errorf("%s: %t, %v", tc.name, unchosen, err)
		}
		known := new(environment.Error)
		if err != nil && (environment.KindOf(err) != environment.KindResources || !errors.As(err, &known) || known.Hint == "") {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err := environment.CheckCreation(context.Background(), tc.provider, tc.limits, environment.Network{}); (err != nil) != tc.refused {
			t.Errorf("%s, before a trial: %v", tc.name, err)
		}
	}
}
