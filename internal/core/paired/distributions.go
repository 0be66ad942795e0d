package paired

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// AtLeast returns the probability of k or more successes in n independent trials with probability p
// each. Source: Abramowitz and Stegun, 26.5.24.
func AtLeast(n, k int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n:
		return 0
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}

// NormalQuantile returns the quantile p of the standard normal distribution.
func NormalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// StudentQuantile returns the quantile p of Student's t distribution, and 0 for p below a half.
// Source: Abramowitz and Stegun, 26.7.1.
func StudentQuantile(p, freedom float64) float64 {
	if p <= 0.5 {
		return 0
	}
	x := mathext.InvRegIncBeta(freedom/2, 0.5, 2*(1-p))
	return math.Sqrt(freedom * (1 - x) / x)
}

// LogChoose returns the logarithm of the binomial coefficient n over k.
func LogChoose(n, k int) float64 {
	lgamma := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	return lgamma(n) - lgamma(k) - lgamma(n-k)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

// wholes returns values times decimals as integers. The products must be whole but for rounding.
func wholes(values []float64, decimals int64) []int64 {
	out := make([]int64, len(values))
	for i, v := range values {
		out[i] = int64(math.Round(v * float64(decimals)))
	}
	return out
}

func total(values []int64) int64 {
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	return sum
}
