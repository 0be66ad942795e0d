package quantity_test

import (
	"testing"

	"github.com/org/rollout-action/internal/lib/quantity"
)

type amount struct {
	in   string
	want int64
	err  string
}

func check(t *testing.T, read func(string) (int64, error), tests map[string]amount) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := read(tt.in)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tt.want || text != tt.err {
				t.Errorf("%q: got %d, %q; want %d, %q", tt.in, got, text, tt.want, tt.err)
			}
		})
	}
}

func TestBytes(t *testing.T) {
	check(t, quantity.Bytes, map[string]amount{
		"decimal units are powers of ten":  {"2G", 2_000_000_000, ""},
		"binary units are powers of two":   {"2Gi", 2 << 30, ""},
		"a plain number is bytes":          {"1073741824", 1 << 30, ""},
		"an exponent is a number":          {"1e9", 1_000_000_000, ""},
		"a fraction of a unit is whole":    {"1.5Ki", 1536, ""},
		"nothing at all is zero":           {"0", 0, ""},
		"exa is a unit, not an exponent":   {"1E", 1_000_000_000_000_000_000, ""},
		"the lower case m is milli":        {"512m", 0, `"512m" is not a whole number of bytes: write 512M or 512Mi`},
		"a fraction of a byte is refused":  {"1.5", 0, `"1.5" is not a whole number of bytes`},
		"a lower case unit is explained":   {"2g", 0, `"2g" is not an amount of bytes such as 512Mi or 2G: write 2G or 2Gi`},
		"a unit with B is explained":       {"512 MB", 0, `"512 MB" is not an amount of bytes such as 512Mi or 2G: write 512M or 512Mi`},
		"a capital K is explained":         {"64K", 0, `"64K" is not an amount of bytes such as 512Mi or 2G: write 64k or 64Ki`},
		"a word is refused":                {"lots", 0, `"lots" is not an amount of bytes such as 512Mi or 2G`},
		"the empty text is refused":        {"", 0, `"" is not an amount of bytes such as 512Mi or 2G`},
		"not a number is refused":          {".nan", 0, `".nan" is not an amount of bytes such as 512Mi or 2G`},
		"a negative amount is refused":     {"-1Gi", 0, `"-1Gi" is negative`},
		"more than int64 is too large":     {"10E", 0, `"10E" is too large`},
		"a huge exponent costs no time":    {"1e999999999", 0, `"1e999999999" is not an amount of bytes such as 512Mi or 2G`},
		"a tiny exponent costs no time":    {"1e-999999999", 0, `"1e-999999999" is not an amount of bytes such as 512Mi or 2G`},
		"leading zeros are no exponent":    {"0000000002G", 2_000_000_000, ""},
		"a padded exponent is an exponent": {"2e003", 2000, ""},
	})
}

func TestMiB(t *testing.T) {
	check(t, quantity.MiB, map[string]amount{
		"a megabyte is two to the twenty":  {"2048", 2 << 30, ""},
		"a whole float is a whole number":  {"1.0", 1 << 20, ""},
		"a fraction is refused":            {"0.5", 0, `"0.5" is not a whole number of megabytes such as 2048`},
		"a unit is refused":                {"2G", 0, `"2G" is not a whole number of megabytes such as 2048`},
		"a negative number is refused":     {"-1", 0, `"-1" is negative`},
		"not a number is refused":          {"nan", 0, `"nan" is not a whole number of megabytes such as 2048`},
		"infinity is too large":            {"inf", 0, `"inf" is too large`},
		"more than int64 is too large":     {"9e18", 0, `"9e18" is too large`},
		"the largest that fits is allowed": {"8796093022207", 8796093022207 << 20, ""},
	})
}

func TestMilliCPUs(t *testing.T) {
	check(t, quantity.MilliCPUs, map[string]amount{
		"one":                              {"1", 1000, ""},
		"half":                             {"0.5", 500, ""},
		"milli":                            {"1500m", 1500, ""},
		"less than a thousandth rounds up": {"0.0001", 1, ""},
		"a word is refused":                {"many", 0, `"many" is not a number of CPUs such as 1, 0.5 or 500m`},
		"a negative number is refused":     {"-1", 0, `"-1" is negative`},
		"too many are refused":             {"1e12", 0, `"1e12" is too large`},
	})
}

func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"2G", "512Mi", "1e9", "-1", "1e999999999", "0.0000001", ".5", "1E", "", "+1", "00001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, read := range []func(string) (int64, error){quantity.Bytes, quantity.MiB, quantity.MilliCPUs} {
			if n, err := read(s); n < 0 || err != nil && n != 0 {
				t.Errorf("%q: %d, %v", s, n, err)
			}
		}
	})
}

func TestText(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 512 << 20: "512Mi", 2 << 30: "2Gi", 1536 << 20: "1536Mi", 2e9: "2G", 1500: "1500", 1 << 20: "1Mi"} {
		if got := quantity.Text(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
		if back, err := quantity.Bytes(quantity.Text(n)); err != nil || back != n {
			t.Errorf("%d: read again: %d, %v", n, back, err)
		}
	}
}
