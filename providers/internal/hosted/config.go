package hosted

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Reader reads an environment.provider_config, and collects its problems.
type Reader struct{ problems []environment.ConfigProblem }

// Complain adds a problem.
func (r *Reader) Complain(where, hint, format string, args ...any) {
	r.problems = append(r.problems, environment.ConfigProblem{Path: where, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Unknown adds the problem of a key that is not among keys. who is who knows these, with the verb.
func (r *Reader) Unknown(where, who string, keys []environment.ConfigKey) {
	r.problems = append(r.problems, environment.UnknownKey(where, who, environment.ConfigKeyNames(keys)...))
}

// Problems returns all problems, sorted by path.
func (r *Reader) Problems() []environment.ConfigProblem {
	slices.SortStableFunc(r.problems, func(a, b environment.ConfigProblem) int { return strings.Compare(a.Path, b.Path) })
	return r.problems
}

// Choice reads one of several texts.
func (r *Reader) Choice(where string, value any, of []string) string {
	text, _ := value.(string)
	if !slices.Contains(of, text) {
		r.Complain(where, "", "must be one of %s", strings.Join(of, ", "))
	}
	return text
}

// Name reads a text of a form; form says which.
func (r *Reader) Name(where string, value any, pattern *regexp.Regexp, form string) string {
	text, _ := value.(string)
	if !pattern.MatchString(text) {
		r.Complain(where, "", "must have %s", form)
	}
	return text
}

// Number reads a whole number from 1 to most.
func (r *Reader) Number(where string, value any, most int64) int {
	n, ok := environment.WholeNumber(value)
	if !ok || n < 1 || n > most {
		r.Complain(where, "", "must be a whole number from 1 to %d", most)
		return 0
	}
	return int(n)
}

// Registry reads a value of registryimage.Config.Registry.
func (r *Reader) Registry(where string, value any) string {
	text, _ := value.(string)
	if err := registryimage.CheckRegistry(text); err != nil {
		r.Complain(where, "", "%v", err)
	}
	return text
}

// Prices reads a mapping with amounts of US dollars; to has the places of keys.
func (r *Reader) Prices(where string, value any, keys []environment.ConfigKey, to map[string]**float64) {
	m, ok := value.(map[string]any)
	if !ok {
		r.Complain(where, "", "must be a mapping")
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := to[key]
		if at == nil {
			r.Unknown(where+"."+key, "it has", keys)
			continue
		}
		usd, ok := m[key].(float64)
		if n, whole := environment.WholeNumber(m[key]); whole {
			usd, ok = float64(n), true
		}
		if !ok || usd < 0 || math.IsInf(usd, 0) || math.IsNaN(usd) {
			r.Complain(where+"."+key, "", "must be an amount of US dollars")
		}
		*at = &usd
	}
}
