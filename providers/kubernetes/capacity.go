package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/org/rollout-action/internal/core/environment"
)

// readCapacity reads the bounds that the namespace's quotas and ranges set. Without permission to
// read them, creations are refused instead.
func (p *Provider) readCapacity(ctx context.Context) {
	quotas, err := p.client.quotas(ctx)
	if err != nil {
		quotas = nil
	}
	ranges, err := p.client.limitRanges(ctx)
	if err != nil {
		ranges = nil
	}
	p.fits = func(l environment.Limits) error { return fits(l, quotas, ranges) }
}

// fits returns why a pod with these limits can never run in a namespace, however empty, or nil.
func fits(l environment.Limits, quotas []corev1.ResourceQuota, ranges []corev1.LimitRange) error {
	wanted := resources(l).Limits
	amount := func(name corev1.ResourceName) resource.Quantity {
		text := strings.TrimPrefix(strings.TrimPrefix(string(name), "requests."), "limits.")
		if text == "pods" || text == "count/pods" {
			return *resource.NewQuantity(1, resource.DecimalSI)
		}
		return wanted[corev1.ResourceName(text)]
	}
	for _, q := range quotas {
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil { // may be for other pods
			continue
		}
		for _, name := range sortedNames(q.Spec.Hard) {
			most, want := q.Spec.Hard[name], amount(name)
			if want.Cmp(most) > 0 {
				return impossible(name, "the quota %s of namespace %s grants %s of %s in all, and %s is wanted", q.Name, q.Namespace, most.String(), name, want.String())
			}
		}
	}
	for _, r := range ranges {
		for _, item := range r.Spec.Limits {
			if item.Type != corev1.LimitTypeContainer && item.Type != corev1.LimitTypePod {
				continue
			}
			for name, want := range wanted {
				if most, ok := item.Max[name]; ok && want.Cmp(most) > 0 {
					return impossible(name, "the limit range %s of namespace %s grants a %s at most %s of %s, and %s is wanted", r.Name, r.Namespace, item.Type, most.String(), name, want.String())
				}
				if least, ok := item.Min[name]; ok && want.Cmp(least) < 0 {
					return impossible(name, "the limit range %s of namespace %s wants a %s to have at least %s of %s, and %s is wanted", r.Name, r.Namespace, item.Type, least.String(), name, want.String())
				}
			}
		}
	}
	return nil
}

func sortedNames(l corev1.ResourceList) []corev1.ResourceName {
	return slices.SortedFunc(maps.Keys(l), cmp.Compare[corev1.ResourceName])
}

func impossible(name corev1.ResourceName, format string, args ...any) error {
	override := "override_cpus"
	switch {
	case strings.Contains(string(name), "memory"):
		override = "override_memory"
	case strings.Contains(string(name), "storage"):
		override = "override_storage"
	case strings.Contains(string(name), "pods"), strings.Contains(string(name), gpuResource):
		override = ""
	}
	hint := "ask for a larger quota, or use another namespace"
	if override != "" {
		hint = "change the task's limits, set environment." + override + " in the job file, or " + hint
	}
	return &environment.Error{Kind: environment.KindResources, Hint: hint, Err: fmt.Errorf(format, args...)}
}
