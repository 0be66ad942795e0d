package fields

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
)

// variable reads the value of an environment variable: any scalar, as written.
func (d *Decoder) variable(n *Node, p Path) (string, bool) {
	switch {
	case n.At.IsFlag() && n.Kind != Text:
		return n.Typed, true
	case n.Kind == Null:
		return "", d.Wrong(n, p, `write "" for the empty text`, "%s has no value", d.Dialect.Words.Name(p))
	case n.Kind == List || n.Kind == Mapping:
		return "", d.MustBe(n, p, Rules{}, d.Dialect.Words.Text, "")
	}
	return n.Text, d.noNUL(n, p, n.Text)
}

func (d *Decoder) noNUL(n *Node, p Path, s string) bool {
	return !strings.ContainsRune(s, 0) || d.Wrong(n, p, "", "%s must not contain a NUL character", d.Dialect.Words.Name(p))
}

func (d *Decoder) text(n *Node, p Path, v reflect.Value, r Rules) bool {
	s, words := n.Text, d.Dialect.Words
	wanted := words.Text
	if len(r.Enum) > 0 {
		wanted = "one of " + strings.Join(r.Enum, ", ")
	}
	switch {
	case n.Kind == Text:
	case n.At.IsFlag(): // use the text as typed
		s = n.Typed
	case n.Kind == List || n.Kind == Mapping:
		return d.MustBe(n, p, r, wanted, "")
	case len(r.Enum) > 0 && !slices.Contains(r.Enum, n.Text):
		return d.MustBe(n, p, r, wanted, "")
	default:
		return d.MustBe(n, p, r, wanted, fmt.Sprintf("write it in quotes: %q", n.Text))
	}
	plain := d.Dialect.Closed && !r.Raw
	switch {
	case !d.noNUL(n, p, s):
		return false
	case plain && strings.TrimSpace(s) == "":
		return d.Wrong(n, p, "", "%s must not be empty", words.Name(p))
	case plain && strings.Contains(s, "${"):
		return d.Wrong(n, p, words.NoPlaceholders, "%s must not contain ${…}: %q", words.Name(p), Shorten(s))
	case len(r.Enum) > 0 && !slices.Contains(r.Enum, s):
		hint := cmp.Or(diag.DidYouMean(s, r.Enum), r.Hint)
		return d.Wrong(n, p, hint, "%s must be one of %s, not %q", words.Name(p), strings.Join(r.Enum, ", "), Shorten(s))
	case r.matches != nil && !r.matches.MatchString(s):
		return d.MustBe(n, p, Rules{Is: r.Is, Hint: r.Hint}, "text that matches "+r.Pattern, "")
	}
	v.SetString(s)
	return true
}

// pattern compiles a regular expression of JSON Schema, whose white space is Unicode's.
func pattern(text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	return regexp.MustCompile(strings.ReplaceAll(text, `\S`, `[^\s\v\pZ\x{FEFF}]`))
}

func (d *Decoder) boolean(n *Node, p Path, v reflect.Value, r Rules) bool {
	const wanted = "true or false"
	switch value := strings.ToLower(n.Text); {
	case n.Kind == Bool:
		v.SetBool(value == "true")
		return true
	case slices.Contains([]string{"yes", "on", "y"}, value):
		return d.MustBe(n, p, r, wanted, "write true")
	case slices.Contains([]string{"no", "off", "n"}, value):
		return d.MustBe(n, p, r, wanted, "write false")
	default:
		return d.MustBe(n, p, r, wanted, "")
	}
}

func (d *Decoder) integer(n *Node, p Path, v reflect.Value, r Rules) bool {
	f, ok := n.Number()
	if !ok || f != math.Trunc(f) || math.IsInf(f, 0) {
		return d.MustBe(n, p, r, "a whole number", unquote(n))
	}
	if !d.inBounds(n, p, f, r) {
		return false
	}
	v.SetInt(int64(f))
	return true
}

func (d *Decoder) float(n *Node, p Path, v reflect.Value, r Rules) bool {
	f, ok := n.Number()
	if !ok {
		return d.MustBe(n, p, r, "a number", cmp.Or(asShare(n, r), unquote(n)))
	}
	if !d.inBounds(n, p, f, r) {
		return false
	}
	v.SetFloat(f)
	return true
}

// share reads a number or a percentage: 0.2 or 20%.
func (d *Decoder) share(n *Node, p Path, v reflect.Value, r Rules) bool {
	f, ok := n.Number()
	if digits, percent := strings.CutSuffix(n.Text, "%"); n.Kind == Text && percent {
		number, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		f, ok = number/100, err == nil
	}
	if !ok {
		return d.MustBe(n, p, r, "a number or a percentage such as 20%", unquote(n))
	}
	if !d.inBounds(n, p, f, r) {
		return false
	}
	v.SetFloat(f)
	return true
}

// asShare returns the hint for a percentage in place of a number between 0 and 1.
func asShare(n *Node, r Rules) string {
	digits, percent := strings.CutSuffix(n.Text, "%")
	if n.Kind != Text || !percent || r.Max == nil || r.Max.Value != 1 {
		return ""
	}
	percentage, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || percentage < 0 || percentage > 100 {
		return ""
	}
	return "write " + strconv.FormatFloat(percentage/100, 'g', 6, 64)
}

// unquote returns the hint for a number in quotes.
func unquote(n *Node) string {
	if n.Kind == Text {
		if _, err := strconv.ParseFloat(n.Text, 64); err == nil {
			return "write it without quotes"
		}
	}
	return ""
}

// notations converts numbers to the syntax of strconv: in YAML and TOML, digits may be grouped as
// in 1_000; YAML writes a dot before nan and inf, and TOML a sign before nan.
var notations = strings.NewReplacer("_", "", ".nan", "nan", ".inf", "inf", "+nan", "nan", "-nan", "nan")

// Number returns the value of an Int or Float node, which may be NaN or infinite. n may be nil.
func (n *Node) Number() (float64, bool) {
	if n == nil || n.Kind != Int && n.Kind != Float {
		return 0, false
	}
	digits := notations.Replace(strings.ToLower(n.Text))
	if n.Kind == Int {
		if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
			return float64(i), true
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// amount reads a number or a quantity. read returns an error for invalid text.
func (d *Decoder) amount(n *Node, p Path, v reflect.Value, r Rules, read func(string) (int64, error)) bool {
	if n.Kind != Int && n.Kind != Float && n.Kind != Text {
		return d.MustBe(n, p, r, "a number or a quantity", "")
	}
	amount, err := read(n.Text)
	if f, ok := n.Number(); ok && err != nil { // such as 0x400 or 1_000, which is no quantity
		if a, again := read(strconv.FormatFloat(f, 'f', -1, 64)); again == nil {
			amount, err = a, nil
		}
	}
	if err != nil {
		return d.Wrong(n, p, "", "%s: %v", d.Dialect.Words.Name(p), err)
	}
	if !d.inBounds(n, p, float64(amount), r) {
		return false
	}
	v.SetInt(amount)
	return true
}

func (d *Decoder) inBounds(n *Node, p Path, f float64, r Rules) bool {
	must := ""
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		must = "a finite number"
	case r.Min != nil && f < r.Min.Value:
		must = "at least " + r.Min.Text
	case r.Max != nil && f > r.Max.Value:
		must = "at most " + r.Max.Text
	case r.Above != nil && f <= r.Above.Value:
		must = "more than " + r.Above.Text
	default:
		return true
	}
	hint := ""
	if r.Max != nil && r.Max.Value == 1 && f > 1 && f <= 100 {
		share := strconv.FormatFloat(f/100, 'g', 6, 64)
		hint = "write " + share + " for " + Shorten(n.Text) + "%"
	}
	return d.Wrong(n, p, hint, "%s must be %s, not %s", d.Dialect.Words.Name(p), must, Shorten(n.Text))
}

// anything reads a provider's setting: map[string]any, []any, string, bool, nil, int or float64.
// Whole numbers are int however they are written, because JSON does not keep the difference.
func (d *Decoder) anything(n *Node, p Path) any {
	switch n.Kind {
	case Null:
		return nil
	case Bool:
		return strings.EqualFold(n.Text, "true")
	case Text, Date:
		var s string
		d.text(n, p, reflect.ValueOf(&s).Elem(), Rules{Raw: !strings.Contains(n.Text, "${")})
		return s
	case List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = d.anything(item, p.Index(i))
		}
		return out
	case Mapping:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Name] = d.anything(f.Value, p.Child(f.Name))
		}
		return out
	}
	f, ok := n.Number()
	if !ok || !d.inBounds(n, p, f, Rules{}) {
		if !ok {
			d.MustBe(n, p, Rules{}, "a number", "")
		}
		return nil
	}
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return int(f)
	}
	return f
}
