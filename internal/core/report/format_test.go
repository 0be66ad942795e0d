package report_test

import (
	"math"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{report.Number(1), "1"}, {report.Number(0), "0"}, {report.Number(0.75), "0.75"}, {report.Number(2.0 / 3), "0.667"},
		{report.Number(1e-9), "1e-09"}, {report.Number(1e12), "1e+12"}, {report.Number(math.NaN()), "NaN"}, {report.Number(-0.5), "-0.5"}, {report.Number(100), "100"},
		{report.Percent(1), "100%"}, {report.Percent(0.9999), "99.9%"}, {report.Percent(0.0001), "0.1%"}, {report.Percent(0), "0%"}, {report.Percent(0.125), "12.5%"},
		{report.Dollars(0), "$0.00"}, {report.Dollars(0.0123), "$0.012"}, {report.Dollars(0.5), "$0.50"}, {report.Dollars(1234.5), "$1234.50"}, {report.Dollars(-2), "-$2.00"},
		{report.Dollars(1e308), "$1e+308"}, {report.Dollars(math.Inf(-1)), "-$Inf"}, {report.Dollars(math.NaN()), "$NaN"},
		{report.Duration(0.44), "0.4s"}, {report.Duration(59.96), "1m00s"}, {report.Duration(3599.6), "1h00m"}, {report.Duration(11000), "3h03m"}, {report.Duration(-2), "-2.0s"},
		{report.Signed(0.25, report.Number), "+0.25"}, {report.Signed(-0.25, report.Number), "−0.25"}, {report.Signed(1e-17, report.Dollars), "±0"},
		{report.Signed(-0.05, report.Points), "−5 pp"}, {report.Points(0.125), "12.5 pp"},
		{report.Count(0), "0"}, {report.Count(999), "999"}, {report.Count(12345), "12,345"}, {report.Count(-1234567), "-1,234,567"},
		{report.Plural(1, "trial"), "1 trial"}, {report.Plural(1000, "trial"), "1,000 trials"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestUnreportedCostIsNotPrintedAsZero(t *testing.T) {
	if got := report.Cost(result.USD{}) + " " + report.Cost(result.Dollars(0.5)) + " " + report.Cost(result.Dollars(0)); got != "– $0.50 $0.00" {
		t.Errorf("got %s", got)
	}
}
