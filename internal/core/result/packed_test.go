package result

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/lib/packing"
)

// fill sets v to a value that depends on r, with everything that a file can have in it.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case time.Time:
		zones := []*time.Location{time.UTC, time.UTC, time.FixedZone("", 3600*r.IntN(12)+1800)}
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<34), r.Int64N(1e9)).In(zones[r.IntN(3)])))
		return
	case USD:
		v.Set(reflect.ValueOf(USD{amount: r.Float64(), reported: r.IntN(2) == 0, bound: r.IntN(2) == 0}))
		return
	}
	if depth > 5 || r.IntN(4) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() - r.Int64())
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	case reflect.Float64:
		v.SetFloat([]float64{0.5, -r.Float64(), math.MaxFloat64, math.Copysign(0, -1)}[r.IntN(4)])
	case reflect.String:
		text := make([]byte, r.IntN(2*packing.MaxShared))
		for i := range text {
			text[i] = byte(r.IntN(256))
		}
		v.SetString(string(text))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, key, depth+1)
			fill(r, value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i), depth+1)
		}
	}
}

func TestUnpackReturnsWhatWasPacked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var p Packer
	var trials []Trial
	var packed []Packed
	for range 300 {
		var made Trial
		fill(r, reflect.ValueOf(&made).Elem(), 0)
		trials, packed = append(trials, made), append(packed, p.Pack(&made))
	}
	for i, want := range trials {
		if got := packed[i].Unpack(); !reflect.DeepEqual(*got, want) {
			t.Fatalf("trial %d:\ngot  %#v\nwant %#v", i, *got, want)
		}
	}
	if unpacked := UnpackAll(PackAll(trials)); !reflect.DeepEqual(unpacked, trials) {
		t.Fatal("UnpackAll does not return what PackAll was given")
	}
	gap := []Packed{packed[1], {}, packed[0]}
	if Compress(packed); !reflect.DeepEqual(UnpackAll(packed), trials) {
		t.Fatal("Compress changes trials")
	}
	if Compress(gap); gap[1].There() || !reflect.DeepEqual(gap[2].Unpack(), &trials[0]) {
		t.Fatal("Compress mixes up trials where one has no result")
	}
	if (Packed{}).There() || (Packed{}).Unpack() != nil || !packed[0].There() {
		t.Fatal("a zero Packed has a trial")
	}
}

// usual returns a result with the fields that most have.
func usual(n int) Trial {
	began := time.Unix(1_800_000_000+int64(n), 123_456_789).UTC()
	digest := "sha256:" + strings.Repeat("a", 64)
	t := Trial{
		Key: Key{Agent: "agent", Dataset: "set", Task: "task", Attempt: n}, Reward: new(1.0), TaskDigest: digest, AgentDigest: digest, ConfigDigest: digest,
		Environment: &Environment{Provider: "docker", Image: "debian", ImageID: digest},
		Durations:   Durations{TotalSec: 1.234, EnvironmentSetupSec: new(0.123), AgentSetupSec: new(0.234), AgentExecutionSec: new(0.345), VerifierSec: new(0.456)},
		Timestamps:  Timestamps{StartedAt: began, EndedAt: began.Add(time.Second)},
	}
	t.Costs.Model, t.Cost = Dollars(0.123), Dollars(0.123)
	return t
}

func TestAPackedTrialIsSmall(t *testing.T) {
	var p Packer
	const n = 300
	var last Packed
	for i := range n {
		trial := usual(i)
		last = p.Pack(&trial)
	}
	if size := last.in.Len() / n; size > 100 {
		t.Errorf("a usual result takes %d bytes, want at most 100", size)
	}
}

// BenchmarkPack packs and unpacks usual results.
func BenchmarkPack(b *testing.B) {
	var p Packer
	one := usual(1)
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			p.Pack(&one)
		}
	})
	packed := p.Pack(&one)
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			packed.Unpack()
		}
	})
}
