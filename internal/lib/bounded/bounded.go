// Package bounded decodes JSON from outside: a few bytes, such as a list of {}, cannot take a
// hundred times as much memory. It does not know whose files it reads.
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
	// free is what may be used beyond that, in bytes.
	free = 16 << 10
	// mapBytes is about what a map takes that has nothing in it, in bytes.
	mapBytes = 48
)

// ErrAmplified is the error of JSON whose values would take far more memory than its text.
var ErrAmplified = errors.New("its values would take far more memory than its text, as a long list of {} does: " +
	"get the original file, or remove this one")

// Unmarshal does what json.Unmarshal of encoding/json does, with bounded memory. The error is an
// ErrAmplified if that does not suffice.
func Unmarshal(data []byte, into any) error {
	return unmarshal(data, into, jsonv1.DefaultOptionsV1())
}

// UnmarshalStrict is like Unmarshal by the rules of encoding/json/v2: names of fields are
// case-sensitive, and none may occur twice.
func UnmarshalStrict(data []byte, into any, options ...json.Options) error {
	return unmarshal(data, into, options...)
}

func unmarshal(data []byte, into any, options ...json.Options) error {
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

// meter adds up what the values of one text take.
type meter struct {
	used, from int64 // from is where the text begins
	exceeded   bool
	option     json.Options
}

// meters has some for use again, because each learns all types.
var meters = sync.Pool{New: func() any { return newMeter() }}

func newMeter() *meter {
	m := &meter{}
	m.option = json.WithUnmarshalers(json.UnmarshalFromFunc(m.count))
	return m
}

// begin forgets what an earlier text took.
func (m *meter) begin(from int64) { m.used, m.from, m.exceeded = 0, from, false }

// end returns the error of decoding a text.
func (m *meter) end(err error) error {
	if m.exceeded {
		return ErrAmplified // by the rules of encoding/json, it is not in err
	}
	return err
}

// count is called before each value is decoded into what into points to. It decodes nothing.
func (m *meter) count(d *jsontext.Decoder, into any) error {
	t := reflect.TypeOf(into).Elem()
	m.used += int64(t.Size())
	if t.Kind() == reflect.Map {
		m.used += mapBytes
	}
	if read := d.InputOffset() - m.from; m.used > free && m.used > free+max(perByte*read, min(perByteOfSmall*read, small)) {
		m.exceeded = true
		return &jsontext.SyntacticError{Err: ErrAmplified} // by the rules of encoding/json, decoding goes on after another one
	}
	return errors.ErrUnsupported
}
