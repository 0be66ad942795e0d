package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/keys"
)

// variable reads the value of an environment variable: any scalar, as written.
func (d *decoder) variable(n *node, p keyPath) (string, bool) {
	switch {
	case n.at.isFlag() && n.kind != text:
		return n.typed, true
	case n.kind == null:
		d.wrong(n, p, `write "" for the empty text`, "%s has no value", p)
		return "", false
	case n.kind == list || n.kind == mapping:
		d.mustBe(n, p, "text", "")
		return "", false
	case strings.ContainsRune(n.text, 0):
		d.wrong(n, p, "", "%s must not contain a NUL character", p)
		return "", false
	}
	return n.text, true
}

func (d *decoder) text(n *node, p keyPath, v reflect.Value, r keys.Rules) {
	s := n.text
	switch {
	case n.kind == text:
	case n.at.isFlag(): // use what was typed
		s = n.typed
	case n.kind == list || n.kind == mapping:
		d.mustBe(n, p, "text", "")
		return
	default:
		d.mustBe(n, p, "text", fmt.Sprintf("write it in quotes: %q", n.text))
		return
	}
	switch {
	case strings.ContainsRune(s, 0):
		d.wrong(n, p, "", "%s must not contain a NUL character", p)
	case !r.Raw && strings.TrimSpace(s) == "":
		d.wrong(n, p, "", "%s must not be empty", p)
	case !r.Raw && strings.Contains(s, "${"):
		d.wrong(n, p, "it is expanded in agents[].env only", "%s must not contain ${…}: %q", p, shorten(s))
	case len(r.Enum) > 0 && !slices.Contains(r.Enum, s):
		d.wrong(n, p, diag.DidYouMean(s, r.Enum), "%s must be one of %s, not %q", p, strings.Join(r.Enum, ", "), shorten(s))
	default:
		v.SetString(s)
	}
}

func (d *decoder) boolean(n *node, p keyPath, v reflect.Value) {
	switch value := strings.ToLower(n.text); {
	case n.kind == boolean:
		v.SetBool(value == "true")
	case slices.Contains([]string{"yes", "on", "y"}, value):
		d.mustBe(n, p, "true or false", "write true")
	case slices.Contains([]string{"no", "off", "n"}, value):
		d.mustBe(n, p, "true or false", "write false")
	default:
		d.mustBe(n, p, "true or false", "")
	}
}

func (d *decoder) integer(n *node, p keyPath, v reflect.Value, r keys.Rules) {
	f, ok := n.number()
	if !ok || f != math.Trunc(f) || math.IsInf(f, 0) {
		d.mustBe(n, p, "a whole number", unquote(n))
		return
	}
	if d.inBounds(n, p, f, r) {
		v.SetInt(int64(f))
	}
}

func (d *decoder) float(n *node, p keyPath, v reflect.Value, r keys.Rules) {
	f, ok := n.number()
	if !ok {
		d.mustBe(n, p, "a number", unquote(n))
		return
	}
	if d.inBounds(n, p, f, r) {
		v.SetFloat(f)
	}
}

// unquote returns the hint for a number in quotes.
func unquote(n *node) string {
	if n.kind == text {
		if _, err := strconv.ParseFloat(n.text, 64); err == nil {
			return "write it without quotes"
		}
	}
	return ""
}

// number returns the value of an integer or float node, which may be NaN or infinite.
func (n *node) number() (float64, bool) {
	if n.kind != integer && n.kind != float {
		return 0, false
	}
	// YAML allows 1_000, and writes a dot before nan and inf.
	digits := strings.NewReplacer("_", "", ".nan", "nan", ".inf", "inf").Replace(strings.ToLower(n.text))
	if i, err := strconv.ParseInt(digits, 0, 64); err == nil && n.kind == integer {
		return float64(i), true
	}
	f, err := strconv.ParseFloat(digits, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// amount reads a number or a quantity. read returns an error for invalid text.
func (d *decoder) amount(n *node, p keyPath, v reflect.Value, r keys.Rules, read func(string) (int64, error)) {
	if n.kind != integer && n.kind != float && n.kind != text {
		d.mustBe(n, p, "a number or a quantity", "")
		return
	}
	amount, err := read(n.text)
	if err != nil {
		d.wrong(n, p, "", "%s: %v", p, err)
		return
	}
	if d.inBounds(n, p, float64(amount), r) {
		v.SetInt(amount)
	}
}

func (d *decoder) inBounds(n *node, p keyPath, f float64, r keys.Rules) bool {
	got := shorten(n.text)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		d.wrong(n, p, "", "%s must be a finite number, not %s", p, got)
	case r.Min != nil && f < *r.Min:
		d.wrong(n, p, "", "%s must be at least %s, not %s", p, plain(*r.Min, r.Type), got)
	case r.Max != nil && f > *r.Max:
		d.wrong(n, p, "", "%s must be at most %s, not %s", p, plain(*r.Max, r.Type), got)
	case r.Above != nil && f <= *r.Above:
		d.wrong(n, p, "", "%s must be more than %s, not %s", p, plain(*r.Above, r.Type), got)
	default:
		return true
	}
	return false
}

// plain formats a bound without an exponent; whole mebibytes as such.
func plain(f float64, t reflect.Type) string {
	bytes := t == reflect.TypeFor[Bytes]() || t == reflect.TypeFor[*Bytes]()
	if bytes && f >= 1<<20 && math.Mod(f, 1<<20) == 0 {
		return strconv.FormatFloat(f/(1<<20), 'f', -1, 64) + "Mi"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// anything reads a provider's setting: map[string]any, []any, string, bool, nil, int or float64. Whole numbers are int however
// they are written, because JSON does not keep the difference.
func (d *decoder) anything(n *node, p keyPath) any {
	switch n.kind {
	case null:
		return nil
	case boolean:
		return strings.EqualFold(n.text, "true")
	case text:
		var s string
		d.text(n, p, reflect.ValueOf(&s).Elem(), keys.Rules{Raw: !strings.Contains(n.text, "${")})
		return s
	case list:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = d.anything(item, p.index(i))
		}
		return out
	case mapping:
		out := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			out[f.name] = d.anything(f.value, p.child(f.name))
		}
		return out
	}
	f, ok := n.number()
	if !ok || !d.inBounds(n, p, f, keys.Rules{}) {
		if !ok {
			d.mustBe(n, p, "a number", "")
		}
		return nil
	}
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return int(f)
	}
	return f
}
