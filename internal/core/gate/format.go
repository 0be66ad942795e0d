package gate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

const noBaseline = "there is no baseline to compare with"

// percent formats a rate. Only 0 is "0.0%", and only 1 is "100.0%".
func percent(rate float64) string {
	tenths := math.Round(rate*1000) / 10
	switch {
	case rate > 0 && tenths == 0:
		tenths = 0.1
	case rate < 1 && tenths == 100:
		tenths = 99.9
	}
	return fmt.Sprintf("%.1f%%", tenths)
}

// share formats a confidence: 95%, 99.9%.
func share(confidence float64) string {
	return strconv.FormatFloat(math.Round(confidence*1e6)/1e4, 'f', -1, 64) + "%"
}

// formatP formats a p-value: "3.1%", "less than 0.1%".
func formatP(p float64) string {
	if p < 0.001 {
		return "less than 0.1%"
	}
	return fmt.Sprintf("%.1f%%", math.Floor(p*1000+0.5+1e-9)/10) // 6.25% is 6.3%, however it was computed
}

// number formats a reward with four digits.
func number(v float64) string { return strconv.FormatFloat(v+0, 'g', 4, 64) } // -0 + 0 is 0

// signed adds the sign + to a positive number.
func signed(text string) string {
	if text[0] == '-' || text == "0" || text == "0.0" {
		return text
	}
	return "+" + text
}

func dollars(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 2, 64) }

func seconds(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// finite returns the number nearest to f that JSON can hold; 0 for NaN.
func finite(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return max(-math.MaxFloat64, min(math.MaxFloat64, f))
}
