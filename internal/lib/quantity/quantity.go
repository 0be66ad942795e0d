// Package quantity parses amounts of CPUs, memory, storage and time.
package quantity

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxMilliCPUs exceeds every machine by far, and keeps sums from overflowing.
const maxMilliCPUs = 1 << 40

// Bytes parses an amount of bytes such as "2G", "512Mi", "1e9" or "1073741824" by Kubernetes' rules
// ("2G" is 2×10⁹). It refuses fractions of a byte: by these rules "512m" is half a byte, surely a
// mistake.
func Bytes(s string) (int64, error) {
	q, err := parse(s)
	if errors.Is(err, errNegative) {
		return 0, fmt.Errorf("%q is negative", s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not an amount of bytes such as 512Mi or 2G%s", s, suggestion(s))
	}
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	whole := resource.NewQuantity(q.Value(), q.Format)
	if q.Cmp(*whole) != 0 {
		return 0, fmt.Errorf("%q is not a whole number of bytes%s", s, suggestion(s))
	}
	return q.Value(), nil
}

// Count parses a number of things such as "2000000", "500k" or "2M", by the rules of Bytes.
func Count(s string) (int64, error) {
	n, err := Bytes(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number such as 2000000, 500k or 2M", s)
	}
	return n, nil
}

// Text formats an amount of bytes so that Bytes can parse it: 512Mi if that is exact, else 2G or
// the number.
func Text(bytes int64) string {
	if bytes%(1<<20) == 0 {
		return resource.NewQuantity(bytes, resource.BinarySI).String()
	}
	return resource.NewQuantity(bytes, resource.DecimalSI).String()
}

// MiB parses the number of a key that ends in _mb ("2048") and returns bytes. Such a megabyte has
// 2²⁰ bytes, as in the tools that these keys come from, whose default of 2048 means 2 GiB.
func MiB(s string) (int64, error) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || f != math.Trunc(f):
		return 0, fmt.Errorf("%q is not a whole number of megabytes such as 2048", s)
	case f < 0:
		return 0, fmt.Errorf("%q is negative", s)
	case f > math.MaxInt64>>20:
		return 0, fmt.Errorf("%q is too large", s)
	}
	return int64(f) << 20, nil
}

// Duration parses a duration such as "90m" or "1h30m" and returns nanoseconds. The unit is
// required, since a plain 90 is ambiguous.
func Duration(s string) (int64, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 90m or 1h30m", s)
	}
	return int64(d), nil
}

// MilliCPUs parses "1", "0.5" or "500m" and returns thousandths of a CPU. Smaller fractions are
// rounded up.
func MilliCPUs(s string) (int64, error) {
	q, err := parse(s)
	if errors.Is(err, errNegative) {
		return 0, fmt.Errorf("%q is negative", s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of CPUs such as 1, 0.5 or 500m", s)
	}
	if q.CmpInt64(maxMilliCPUs/1000) >= 0 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return q.MilliValue(), nil
}

var errNegative = errors.New("negative")

// maxLength is the maximum length of an amount, because the parser's time grows faster than its
// input.
const maxLength = 40

// hugeExponent matches exponents that no amount needs, and that cost the parser seconds.
var hugeExponent = regexp.MustCompile(`[eE][-+]?0*[1-9][0-9]{2}`)

func parse(s string) (resource.Quantity, error) {
	if len(s) > maxLength || hugeExponent.MatchString(s) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return q, err
	}
	if q.Sign() < 0 {
		return q, errNegative
	}
	return q, nil
}

// otherUnit matches other usual spellings: 2g, 512MB, 2 GiB, 512m.
var otherUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT])[iI]?[bB]?$`)

// suggestion returns ": write 512M or 512Mi" if s looks like an amount in another notation, else
// "".
func suggestion(s string) string {
	m := otherUnit.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	decimal := map[string]string{"k": "k", "K": "k", "m": "M", "M": "M", "g": "G", "G": "G", "t": "T", "T": "T"}[m[2]]
	binary := map[string]string{"k": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}[decimal]
	return fmt.Sprintf(": write %s%s or %s%s", m[1], decimal, m[1], binary)
}
