package paired

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestStudent compares quantiles with tables.
func TestStudent(t *testing.T) {
	for _, c := range []struct{ p, freedom, want float64 }{
		{0.95, 1, 6.3138}, {0.95, 10, 1.8125}, {0.975, 5, 2.5706}, {0.99, 100, 2.3642}, {0.5, 3, 0},
	} {
		if got := StudentQuantile(c.p, c.freedom); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("p %v, %v degrees of freedom: %v, want %v", c.p, c.freedom, got, c.want)
		}
	}
	if got := NormalQuantile(0.975); math.Abs(got-1.959964) > 1e-6 {
		t.Errorf("normal: %v", got)
	}
}

// TestAgrestiMin: with one attempt the interval is theirs, but for Student's quantile. Counts 16,
// 34, 6 and 44 of 100: 28/102 ± z √((41-28²/102)/102²).
func TestAgrestiMin(t *testing.T) {
	var pairs [][2][]float64
	for i, n := range []int{16, 34, 6, 44} {
		for range n {
			pairs = append(pairs, one(float64(i&1), float64(i>>1)))
		}
	}
	low, high := Interval(sampleFrom(pairs...), 0.025, true)
	centre, reach := 28.0/102, 1.98350*math.Sqrt((41-28.*28/102)/102/102)
	if math.Abs(low-(centre-reach)) > 1e-4 || math.Abs(high-(centre+reach)) > 1e-4 {
		t.Errorf("%v to %v, want %v ± %v", low, high, centre, reach)
	}
}

func TestNeeded(t *testing.T) {
	// Forty tasks that are tossed coins: one attempt shows a drop of 40 points, and four show half
	// of that.
	s := coins(40, 1, 0)
	smallest, ok := Detectable(s, 0.05)
	if !ok || smallest < 0.2 || smallest > 0.5 {
		t.Fatalf("smallest drop %v %v", smallest, ok)
	}
	if n := NeededAttempts(s, smallest*1.1, 0.05); n != 0 {
		t.Errorf("%d attempts needed for what one shows", n)
	}
	if n := NeededAttempts(s, smallest/2, 0.05); n < 3 || n > 8 {
		t.Errorf("%d attempts needed for half of what one shows, want about 4", n)
	}
	if n := NeededAttempts(coins(3, 1, 0), 0.1, 0.05); n != 0 {
		t.Errorf("%d attempts, though three tasks can show nothing", n)
	}
	if _, ok := Detectable(coins(3, 5, 0), 0.05); ok {
		t.Error("three tasks can show nothing, however many attempts")
	}
	if _, _, ok := DetectableBroken(coins(3, 5, 0), 0.05); ok {
		t.Error("three tasks can show nothing, however few broke")
	}
	// Each task by itself always does the same, half of them lost and half of them won: attempts
	// show nothing.
	var pairs [][2][]float64
	for i := range 40 {
		v := float64(i % 2)
		pairs = append(pairs, [2][]float64{{v, v, v}, {1 - v, 1 - v, 1 - v}})
	}
	if n := NeededAttempts(sampleFrom(pairs...), 0.1, 0.05); n != 0 {
		t.Errorf("%d attempts needed, though they change nothing", n)
	}
	passing, graded := Sample{Binary: true}, Sample{}
	if passing.TooFew(4, 0.05) || !passing.TooFew(3, 0.05) || passing.LeastTasks(0.05) != 4 || passing.LeastTasks(0.25) != 1 || passing.LeastTasks(0.1) != 3 ||
		!graded.TooFew(4, 0.05) || graded.TooFew(5, 0.05) || graded.LeastTasks(0.25) != 2 {
		t.Error("four tasks are the least at 95%")
	}
}

// coins returns tasks that pass with probability one half, and with drop less afterwards.
func coins(tasks, attempts int, drop float64) Sample {
	rng := rand.New(rand.NewPCG(uint64(tasks), uint64(attempts)))
	var pairs [][2][]float64
	for range tasks {
		var p [2][]float64
		for range attempts {
			p[0] = append(p[0], toss(rng, 0.5))
			p[1] = append(p[1], toss(rng, 0.5-drop))
		}
		pairs = append(pairs, p)
	}
	return sampleFrom(pairs...)
}

func toss(rng *rand.Rand, chance float64) float64 {
	if rng.Float64() < chance {
		return 1
	}
	return 0
}

// Six tasks would need hundreds of attempts to detect a small drop, so a number of tasks is
// named instead.
func TestNeededTasks(t *testing.T) {
	s := coins(6, 1, 0)
	if n := NeededAttempts(s, 0.1, 0.05); n != 0 {
		t.Errorf("n_attempts: %d is proposed", n)
	}
	tasks := NeededTasks(s, 0.1, 0.05)
	if tasks < 100 || tasks > maxNeededTasks || tasks%10 != 0 {
		t.Errorf("%d tasks are proposed", tasks)
	}
	if v := s.VarianceAt(0.1, nil); s.powerOf(tasks, 0.1, 0.05, v) < Power || s.powerOf(tasks-10, 0.1, 0.05, v) >= Power {
		t.Errorf("%d tasks are not about as many as it takes", tasks)
	}
	if n := NeededTasks(s, 0.0001, 0.05); n != 0 {
		t.Errorf("%d tasks are proposed for next to nothing", n)
	}
}

// TestUnitsAreSmall: the verdict on a million trials holds 200,000 units for each of several tests.
func TestUnitsAreSmall(t *testing.T) {
	if n := unsafe.Sizeof(Unit{}); n > 56 {
		t.Errorf("a unit has %d bytes", n)
	}
}
