package bounded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAListOfAnObjectIsReadElementByElement(t *testing.T) {
	var names []string
	rest, err := ReadObject(strings.NewReader(`{"name": "a", "each": [{"name": "b"}, {"Name": "c", "each": [{}]}], "to": {"each": [1]}}`), "each", func(decode func(any) error) error {
		var m member
		err := decode(&m)
		names = append(names, m.Name+fmt.Sprint(len(m.Each)))
		return err
	})
	if want := `{"name":"a","each":[],"to":{"each": [1]}}`; err != nil || string(rest) != want || strings.Join(names, " ") != "b0 c1" {
		t.Errorf("%s, %q, %v", rest, names, err)
	}
}

func TestAnObjectIsReadToItsEnd(t *testing.T) {
	for _, text := range []string{
		"", "null", "1", "[]", "{", `{"each"`, `{"each":[`, `{"each":[{}`, `{"each":[{}]`, `{"each":[{} {}]}`, `{"each":[,]}`, `{"each":[]}x`, `{"each":[]}{}`,
		`{"each":[],"each":[]}`, `{"Each":[]}`, `{"ea_ch":[]}`, `{"each":[1]}`, `{"name":}`, `{"name":1 "to":2}`,
	} {
		if rest, err := ReadObject(strings.NewReader(text), "each", func(decode func(any) error) error { return decode(&member{}) }); err == nil {
			t.Errorf("%s was read: %s", text, rest)
		}
	}
	stop := errors.New("stop")
	if _, err := ReadObject(strings.NewReader(`{"each":[{}]}`), "each", func(func(any) error) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("after the error of an element: %v", err)
	}
	if _, err := ReadObject(strings.NewReader(`{"each":[{}]}`), "each", func(func(any) error) error { return nil }); err == nil {
		t.Error("an element that nothing decodes did not end it")
	}
}

func TestAnAmplifiedListIsRefusedElementByElement(t *testing.T) {
	text := `{"each":[` + strings.Repeat("{},", 1_000_000) + `{}]}`
	n := 0
	took := allocated(func() {
		_, err := ReadObject(strings.NewReader(text), "each", func(decode func(any) error) error {
			n++
			return decode(&member{})
		})
		if !errors.Is(err, ErrAmplified) {
			t.Errorf("%v", err)
		}
	})
	if n > 500_000 || took > 100*len(text) {
		t.Errorf("it ended after %d elements and %d bytes", n, took)
	}
}
