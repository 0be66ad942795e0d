package bounded

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

type member struct {
	Name  string             `json:"name"`
	Texts [5]string          `json:"-"`
	Each  []member           `json:"each"`
	ByKey map[string]member  `json:"by_key"`
	Any   any                `json:"any"`
	To    *member            `json:"to"`
	Raw   json.RawMessage    `json:"raw"`
	Flat  []int              `json:"flat"`
	Sums  map[string]float64 `json:"sums"`
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// amplified returns objects whose member is a list, or an object, of a million elements.
func amplified() map[string]string {
	many := func(s string) string { return strings.TrimSuffix(strings.Repeat(s+",", 1_000_000), ",") }
	members := func(value string) string { return strings.TrimSuffix(strings.Repeat(`"":`+value+`,`, 1_000_000), ",") }
	return map[string]string{
		"objects":          `{"each":[` + many("{}") + `]}`,
		"null":             `{"each":[` + many("null") + `]}`,
		"of another type":  `{"each":[` + many("0") + `]}`,
		"with little":      `{"each":[` + many(`{"name":""}`) + `]}`,
		"objects anywhere": `{"any":[` + many("{}") + `]}`,
		"members":          `{"by_key":{` + members("{}") + `}}`,
		"deep":             `{"any":` + strings.Repeat("[", 9000) + many("[]") + strings.Repeat("]", 9000) + `}`,
		"repeated":         `{` + strings.TrimSuffix(strings.Repeat(`"each":[{},{},{}],`, 100_000), ",") + `}`,
	}
}

func TestAmplifiedIsRefusedWithLittleMemory(t *testing.T) {
	for name, text := range amplified() {
		t.Run(name, func(t *testing.T) {
			data := []byte(text)
			for _, way := range []struct {
				name   string
				decode func(into *member) error
			}{
				{"Unmarshal", func(into *member) error { return Unmarshal(data, into) }},
				{"Decoder", func(into *member) error { return NewDecoder(strings.NewReader(text)).Decode(into) }},
				{"UnmarshalStrict", func(into *member) error { return UnmarshalStrict(data, into) }},
			} {
				var err error
				took := allocated(func() { err = way.decode(new(member)) })
				if err == nil || way.name != "UnmarshalStrict" && !errors.Is(err, ErrAmplified) { // the strict one may find another error first
					t.Errorf("%s: %v", way.name, err)
				}
				if took > 1<<20+4*len(text) { // a decoder holds the text, and its buffer grows
					t.Errorf("%s allocated %d bytes for %d", way.name, took, len(text))
				}
			}
		})
	}
}

func TestOtherJSONIsDecodedAsByEncodingJSON(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat(`{"name":"a name of a usual length","Each":[{"name":"another one"}],"unknown":1,"flat":[1,2,3,4]},`, 20_000), ",")
	for name, text := range map[string]string{
		"a long list":     `{"each":[` + long + `]}`,
		"numbers":         `{"flat":[` + strings.Repeat("1,", 1_000_000) + `1]}`,
		"not looked into": `{"raw":[` + strings.Repeat("{},", 1_000_000) + `{}],"other":[` + strings.Repeat("{},", 1_000_000) + `{}]}`,
		"a short list":    `{"each":[{},{},{},null,{}]}`,
		"twice":           `{"name":"a","NAME":"b"}`,
		"of another type": `{"name":1,"flat":[1]}`,
		"torn":            `{"name":"a`,
		"more after it":   `{} {}`,
	} {
		t.Run(name, func(t *testing.T) {
			var got, want member
			err, wantErr := Unmarshal([]byte(text), &got), json.Unmarshal([]byte(text), &want)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%v, encoding/json has %v", err, wantErr)
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("%.300s, want %.300s", a, b)
			}
		})
	}
}

func TestDecoderBoundsEachValue(t *testing.T) {
	d := NewDecoder(strings.NewReader(strings.Repeat("{\"name\":\"a\"}\n", 100_000) + "{\"each\":[" + strings.Repeat("{},", 100_000) + "{}]}\n"))
	for range 100_000 {
		var m member
		if err := d.Decode(&m); err != nil || m.Name != "a" {
			t.Fatal(m.Name, err)
		}
	}
	if err := d.Decode(new(member)); !errors.Is(err, ErrAmplified) {
		t.Fatal(err)
	}
	if err := NewDecoder(strings.NewReader(" \n")).Decode(new(member)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// Lists of small values in fields of any type, such as coordinates, take much memory for their text
// without being hostile.
func TestListsOfSmallValuesAreDecoded(t *testing.T) {
	for _, element := range []string{`1`, `[1,2]`, `[0.5]`, `["a"]`, `{"x":1}`, `{"x":1,"y":2}`, `{"name":"ab"}`} {
		text := `{"extra":[` + strings.TrimSuffix(strings.Repeat(element+",", 5000), ",") + `]}`
		var into struct{ Extra any }
		if err := Unmarshal([]byte(text), &into); err != nil {
			t.Errorf("%s: %v", element, err)
		}
	}
}
