package termtext

import (
	"math"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for _, c := range []struct {
		d                  time.Duration
		age, took, roughly string
	}{
		{-time.Second, "0s", "0.0s", "10s"},
		{0, "0s", "0.0s", "10s"},
		{400 * time.Millisecond, "0s", "0.4s", "10s"},
		{12340 * time.Millisecond, "12s", "12.3s", "20s"},
		{59970 * time.Millisecond, "59s", "1m00s", "1m"},
		{62 * time.Second, "1m02s", "1m02s", "2m"},
		{3*time.Hour + 4*time.Minute, "3h04m", "3h04m", "3h00m"},
		{53 * time.Hour, "2d05h", "2d05h", "53h00m"},
	} {
		if got := Age(c.d); got != c.age {
			t.Errorf("Age(%v) = %s, want %s", c.d, got, c.age)
		}
		if got := Took(c.d.Seconds()); got != c.took {
			t.Errorf("Took(%v) = %s, want %s", c.d, got, c.took)
		}
		if got := Roughly(c.d); got != c.roughly {
			t.Errorf("Roughly(%v) = %s, want %s", c.d, got, c.roughly)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		f               float64
		number, aligned string
	}{
		{0, "0.0", "0.000"},
		{1, "1.0", "1.000"},
		{0.25, "0.25", "0.250"},
		{1.0 / 3, "0.333", "0.333"},
		{-2.5, "-2.5", "-2.500"},
		{0.0001, "0.0001", "0.0001"},
		{123456, "123456.0", "123456.000"},
		{1e9, "1e+09", "1e+09"},
		{math.Inf(1), "+Inf", "+Inf"},
	} {
		if got := Number(c.f); got != c.number {
			t.Errorf("Number(%v) = %s, want %s", c.f, got, c.number)
		}
		if got := Aligned(c.f); got != c.aligned {
			t.Errorf("Aligned(%v) = %s, want %s", c.f, got, c.aligned)
		}
	}
}

func TestPercentOfAlmostAllOrNone(t *testing.T) {
	for rate, want := range map[float64]string{
		0: "0.0%", 0.0001: "0.1%", 0.5: "50.0%", 2.0 / 3: "66.7%", 0.9999: "99.9%", 1: "100.0%",
	} {
		if got := Percent(rate); got != want {
			t.Errorf("Percent(%v) = %s, want %s", rate, got, want)
		}
	}
}
