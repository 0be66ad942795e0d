// Package bounded decodes untrusted JSON with bounded memory: a list of {}, for example, could
// otherwise take a hundred times the memory of its text.
package bounded

import (
	"errors"
	"io"
	"reflect"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

const (
	// perByte bounds the memory of decoded values, in bytes for each byte of JSON up to there. The
	// files of a job need 1 to 3.
	perByte = 8
	// perByteOfSmall and small are the same for texts whose values take less than small bytes:
	// values of any type, such as [1,2], need up to 16 for each byte.
	perByteOfSmall, small = 32, 1 << 20
	// free is an additional allowance, in bytes.
	free = 16 << 10
	// mapBytes is the approximate size of an empty map, in bytes.
	mapBytes = 48
)

// ErrAmplified is the error of JSON whose values would take far more memory than its text.
var ErrAmplified = errors.New("its values would take far more memory than its text, as a long list of {} does: " +
	"get the original file, or remove this one")

// Unmarshal is json.Unmarshal of encoding/json with bounded memory. The error is an ErrAmplified if
// the values need more.
func Unmarshal(data []byte, into any) error {
	return unmarshal(data, into, jsonv1.DefaultOptionsV1())
}

// UnmarshalStrict is like Unmarshal by the rules of encoding/json/v2: names of fields are
// case-sensitive, and none may occur twice.
func UnmarshalStrict(data []byte, into any, options ...json.Options) error {
	return unmarshal(data, into, options...)
}

func unmarshal(data []byte, into any, options ...json.Options) error {
	if harmless(data, into) {
		return json.Unmarshal(data, into, options...)
	}
	m, _ := meters.Get().(*meter)
	defer meters.Put(m)
	m.begin(0)
	return m.end(json.Unmarshal(data, into, append(options, m.option)...))
}

// Decoder reads JSON values, one after the other, from a reader. Each has bounded memory.
type Decoder struct {
	d *jsontext.Decoder
	m *meter
}

// NewDecoder returns a decoder by the rules of encoding/json.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{jsontext.NewDecoder(r, jsonv1.DefaultOptionsV1()), newMeter()}
}

// Decode reads the next value. The error is io.EOF at the end. After another error there is nothing
// more to read.
func (d *Decoder) Decode(into any) error {
	d.m.begin(d.d.InputOffset())
	return d.m.end(json.UnmarshalDecode(d.d, into, d.m.option))
}

// meter adds up the memory of the values of one text.
type meter struct {
	used, from int64 // from is where the text begins
	exceeded   bool
	option     json.Options
}

// meters is a pool of meters to reuse, because each learns all types.
var meters = sync.Pool{New: func() any { return newMeter() }}

func newMeter() *meter {
	m := &meter{}
	m.option = json.WithUnmarshalers(json.UnmarshalFromFunc(m.count))
	return m
}

// begin resets the meter for the next text.
func (m *meter) begin(from int64) { m.used, m.from, m.exceeded = 0, from, false }

// end returns err, or ErrAmplified if the text exceeded its memory.
func (m *meter) end(err error) error {
	if m.exceeded {
		return ErrAmplified // by the rules of encoding/json, it is not in err
	}
	return err
}

// allowed returns how much memory the values of a text of size bytes may take.
func allowed(size int64) int64 {
	return free + max(perByte*size, min(perByteOfSmall*size, small))
}

// count runs before each value is decoded into the target of into. It decodes nothing.
func (m *meter) count(d *jsontext.Decoder, into any) error {
	t := reflect.TypeOf(into).Elem()
	m.used += int64(t.Size())
	if t.Kind() == reflect.Map {
		m.used += mapBytes
	}
	if read := d.InputOffset() - m.from; m.used > free && m.used > allowed(read) {
		m.exceeded = true
		return &jsontext.SyntacticError{Err: ErrAmplified} // by the rules of encoding/json, decoding goes on after another one
	}
	return errors.ErrUnsupported
}
