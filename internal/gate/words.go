package gate

import (
	"fmt"
	"math"
	"strconv"
)

const noBaseline = "there is no baseline to compare with"

// percent is a rate of which only none reads 0.0% and only all 100.0%.
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

// share is a confidence: 95%, 99.9%.
func share(confidence float64) string {
	return strconv.FormatFloat(math.Round(confidence*1e6)/1e4, 'f', -1, 64) + "%"
}

// chance is a p: "3.1%", "less than 0.1%".
func chance(p float64) string {
	if p < 0.001 {
		return "less than 0.1%"
	}
	return fmt.Sprintf("%.1f%%", math.Floor(p*1000+0.5+1e-9)/10) // 6.25% is 6.3%, however it was computed
}

// number is a reward, to four digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// signed is a number with its sign, and 0 without.
func signed(text string) string {
	if text[0] == '-' || text == "0" || text == "0.0" {
		return text
	}
	return "+" + text
}

func dollars(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 2, 64) }

func seconds(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
