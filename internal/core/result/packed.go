package result

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"sync"
	"time"
)

// Packed is the result of a trial in little memory: about a tenth of a Trial with its parts. The
// zero Packed has none. Unpack takes about a microsecond.
type Packed struct {
	in    *block
	at    int32
	marks marks
}

// marks is a set of facts about a trial that callers read without unpacking it.
type marks uint8

const (
	isCompleted    marks = 1 << iota // Trial.Completed
	isPassed                         // Trial.Passed
	isFailed                         // Trial.Failed
	isErrored                        // there is an Error
	isCancelled                      // it is Cancelled
	isNotable                        // see Packed.Notable
	isConfirmation                   // Trial.Confirmation
)

// marksOf returns the marks of a trial.
func marksOf(t *Trial) (all marks) {
	e := t.Environment
	for _, m := range []struct {
		mark marks
		is   bool
	}{
		{isCompleted, t.Completed()}, {isPassed, t.Passed()}, {isFailed, t.Failed()}, {isConfirmation, t.Confirmation}, {isErrored, t.Error != nil}, {isCancelled, t.Error != nil && t.Error.Type == Cancelled},
		{isNotable, t.Reused != nil || t.Reverified != nil || len(t.Agents)+len(t.Scores)+len(t.Steps)+len(t.Warnings)+len(t.Omitted) > 0},
		{isNotable, e != nil && (e.Preserved || e.Base != nil || e.Outcome != nil || e.Verifier != nil || len(e.Unenforced) > 0)},
	} {
		if m.is {
			all |= m.mark
		}
	}
	return all
}

// block holds packed trials one after the other.
type block struct {
	data  []byte
	texts *texts
}

// texts holds the texts that packed trials share.
type texts struct{ list []string }

// Bounds of the memory of a Packer: bytes of a block, and texts that are shared. Other texts are
// in the trials themselves.
const (
	blockSize = 64 << 10
	maxTexts  = 1 << 17
)

// Packer packs trials. It is not safe for concurrent use, nor while one of its trials is unpacked.
// The zero Packer is ready to use.
type Packer struct {
	current *block
	texts   *texts
	index   map[string]int
}

// Pack returns a trial in little memory. Unpack returns an equal one.
func (p *Packer) Pack(t *Trial) Packed {
	if p.texts == nil {
		p.texts, p.index = &texts{}, map[string]int{}
	}
	if p.current == nil || len(p.current.data) >= blockSize {
		p.current = &block{data: make([]byte, 0, blockSize+blockSize/8), texts: p.texts}
	}
	packed := Packed{p.current, int32(len(p.current.data)), marksOf(t)}
	trialFields.pack(p, reflect.ValueOf(t).Elem())
	return packed
}

// PackAll packs trials.
func PackAll(trials []Trial) []Packed {
	var p Packer
	packed := make([]Packed, len(trials))
	for i := range trials {
		packed[i] = p.Pack(&trials[i])
	}
	return packed
}

// UnpackAll returns all trials whole.
func UnpackAll(packed []Packed) []Trial {
	trials := make([]Trial, len(packed))
	for i, p := range packed {
		p.unpackInto(&trials[i])
	}
	return trials
}

// Key returns the key of the trial, which is the first field of its packed form.
func (p Packed) Key() (key Key) {
	if p.in == nil {
		return key
	}
	r := unpacker{data: p.in.data[p.at:], texts: p.in.texts}
	if r.number() == 1 {
		for n := r.number(); n > 0; n = r.number() {
			switch n {
			case 1:
				key.Task = r.text()
			case 2:
				key.Dataset = r.text()
			case 3:
				key.Agent = r.text()
			case 4:
				key.Attempt = int(r.signed())
			}
		}
	}
	return key
}

// Find returns the first of the trials with each of the keys; without a result where there is none.
// keys have no duplicates.
func Find(keys []Key, trials []Packed) []Packed {
	found := make([]Packed, len(keys))
	for i, n := range find(keys, PackedTree{Trials: trials}) {
		if n != none {
			found[i] = trials[n]
		}
	}
	return found
}

// There reports whether there is a result.
func (p Packed) There() bool { return p.in != nil }

// Completed reports what Trial.Completed does.
func (p Packed) Completed() bool { return p.marks&isCompleted > 0 }

// Passed reports what Trial.Passed does.
func (p Packed) Passed() bool { return p.marks&isPassed > 0 }

// Failed reports what Trial.Failed does.
func (p Packed) Failed() bool { return p.marks&isFailed > 0 }

// Errored reports whether the trial has an error.
func (p Packed) Errored() bool { return p.marks&isErrored > 0 }

// Cancelled reports whether the trial has an error of the type Cancelled.
func (p Packed) Cancelled() bool { return p.marks&isCancelled > 0 }

// Confirmation reports whether the trial is a confirmation attempt.
func (p Packed) Confirmation() bool { return p.marks&isConfirmation > 0 }

// Notable reports whether there is something to say about the trial besides its outcome: it did not
// run here or not as it should have, has judges or steps, left warnings or files out, or kept its
// environment.
func (p Packed) Notable() bool { return p.marks&isNotable > 0 }

// Unpack returns the trial; nil if there is none. Each call returns another copy.
func (p Packed) Unpack() *Trial {
	if p.in == nil {
		return nil
	}
	t := &Trial{}
	p.unpackInto(t)
	return t
}

func (p Packed) unpackInto(t *Trial) {
	r := unpacker{data: p.in.data[p.at:], texts: p.in.texts}
	trialFields.unpack(&r, reflect.ValueOf(t).Elem())
}

// The packed form of a struct is, for each field that is not zero, its number from 1 and its value,
// and then a 0.

// form packs and unpacks values of one type.
type form struct {
	pack   func(p *Packer, v reflect.Value)
	unpack func(r *unpacker, v reflect.Value)
}

var trialFields = formOf(reflect.TypeFor[Trial]())

// forms has the form of each type; types may contain each other.
var forms sync.Map

func formOf(t reflect.Type) *form {
	f := &form{}
	if known, loaded := forms.LoadOrStore(t, f); loaded {
		return known.(*form)
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		f.pack, f.unpack = packTime, unpackTime
		return f
	case reflect.TypeFor[USD]():
		f.pack, f.unpack = packUSD, unpackUSD
		return f
	}
	switch t.Kind() {
	case reflect.Bool:
		f.pack = func(p *Packer, v reflect.Value) { p.number(map[bool]uint64{true: 1}[v.Bool()]) }
		f.unpack = func(r *unpacker, v reflect.Value) { v.SetBool(r.number() == 1) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.pack = func(p *Packer, v reflect.Value) { p.signed(v.Int()) }
		f.unpack = func(r *unpacker, v reflect.Value) { v.SetInt(r.signed()) }
	case reflect.Uint8:
		f.pack = func(p *Packer, v reflect.Value) { p.number(v.Uint()) }
		f.unpack = func(r *unpacker, v reflect.Value) { v.SetUint(r.number()) }
	case reflect.Float64:
		f.pack = func(p *Packer, v reflect.Value) { p.float(v.Float()) }
		f.unpack = func(r *unpacker, v reflect.Value) { v.SetFloat(r.float()) }
	case reflect.String:
		f.pack = func(p *Packer, v reflect.Value) { p.text(v.String()) }
		f.unpack = func(r *unpacker, v reflect.Value) { v.SetString(r.text()) }
	case reflect.Pointer:
		f.pointer(t)
	case reflect.Slice:
		f.slice(t)
	case reflect.Map:
		f.keyed(t)
	case reflect.Struct:
		f.fields(t)
	default:
		panic(fmt.Sprintf("a result has a %s, which cannot be packed", t))
	}
	return f
}

func (f *form) pointer(t reflect.Type) {
	of := formOf(t.Elem())
	f.pack = func(p *Packer, v reflect.Value) { of.pack(p, v.Elem()) }
	f.unpack = func(r *unpacker, v reflect.Value) {
		v.Set(reflect.New(t.Elem()))
		of.unpack(r, v.Elem())
	}
}

func (f *form) slice(t reflect.Type) {
	of := formOf(t.Elem())
	f.pack = func(p *Packer, v reflect.Value) {
		p.number(uint64(v.Len()))
		for i := range v.Len() {
			of.pack(p, v.Index(i))
		}
	}
	f.unpack = func(r *unpacker, v reflect.Value) {
		n := int(r.number())
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			of.unpack(r, v.Index(i))
		}
	}
}

// keyed sets the form of a type of maps. Values that are pointers may be nil.
func (f *form) keyed(t reflect.Type) {
	key, of := formOf(t.Key()), formOf(t.Elem())
	f.pack = func(p *Packer, v reflect.Value) {
		p.number(uint64(v.Len()))
		for entries := v.MapRange(); entries.Next(); {
			key.pack(p, entries.Key())
			if entries.Value().IsZero() {
				p.number(0)
				continue
			}
			p.number(1)
			of.pack(p, entries.Value())
		}
	}
	f.unpack = func(r *unpacker, v reflect.Value) {
		n := int(r.number())
		v.Set(reflect.MakeMapWithSize(t, n))
		for range n {
			k, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			key.unpack(r, k)
			if r.number() == 1 {
				of.unpack(r, value)
			}
			v.SetMapIndex(k, value)
		}
	}
}

func (f *form) fields(t reflect.Type) {
	of := make([]*form, t.NumField())
	for i := range of {
		if !t.Field(i).IsExported() {
			panic(fmt.Sprintf("a result has a %s with a field %s, which cannot be packed", t, t.Field(i).Name))
		}
		of[i] = formOf(t.Field(i).Type)
	}
	f.pack = func(p *Packer, v reflect.Value) {
		for i, field := range of {
			if value := v.Field(i); !value.IsZero() {
				p.number(uint64(i) + 1)
				field.pack(p, value)
			}
		}
		p.number(0)
	}
	f.unpack = func(r *unpacker, v reflect.Value) {
		for n := r.number(); n > 0; n = r.number() {
			of[n-1].unpack(r, v.Field(int(n)-1))
		}
	}
}

// number appends a number: small ones take one byte.
func (p *Packer) number(n uint64) { p.current.data = binary.AppendUvarint(p.current.data, n) }

func (p *Packer) signed(n int64) { p.current.data = binary.AppendVarint(p.current.data, n) }

// float appends a number, whose low bits are mostly 0.
func (p *Packer) float(f float64) { p.number(bits.ReverseBytes64(math.Float64bits(f))) }

// text appends a text: twice its number among the shared ones, or else twice its length and one,
// and its bytes.
func (p *Packer) text(s string) {
	n, ok := p.index[s]
	switch {
	case ok:
	case len(s) < maxShared && len(p.texts.list) < maxTexts:
		n = len(p.texts.list)
		p.texts.list, p.index[s] = append(p.texts.list, s), n
	default:
		p.number(uint64(len(s))<<1 | 1)
		p.current.data = append(p.current.data, s...)
		return
	}
	p.number(uint64(n) << 1)
}

// maxShared bounds texts that are shared, in bytes: digests and names are shorter, messages longer.
const maxShared = 256

// unpacker reads what a Packer appended.
type unpacker struct {
	data  []byte
	texts *texts
}

func (r *unpacker) number() uint64 {
	n, size := binary.Uvarint(r.data)
	r.data = r.data[size:]
	return n
}

func (r *unpacker) signed() int64 {
	n, size := binary.Varint(r.data)
	r.data = r.data[size:]
	return n
}

func (r *unpacker) float() float64 { return math.Float64frombits(bits.ReverseBytes64(r.number())) }

func (r *unpacker) text() string {
	n := r.number()
	if n&1 == 0 {
		return r.texts.list[n>>1]
	}
	s := string(r.data[:n>>1])
	r.data = r.data[n>>1:]
	return s
}

// packTime appends a time. Files have UTC; another zone is kept as an offset.
func packTime(p *Packer, v reflect.Value) {
	t := *v.Addr().Interface().(*time.Time)
	if t.Location() == time.UTC {
		p.number(0)
		p.signed(t.Unix())
		p.number(uint64(t.Nanosecond()))
		return
	}
	text, err := t.MarshalBinary()
	if err != nil { // an offset that RFC 3339 does not have either
		text, _ = t.UTC().MarshalBinary()
	}
	p.number(uint64(len(text)))
	p.current.data = append(p.current.data, text...)
}

func unpackTime(r *unpacker, v reflect.Value) {
	t := v.Addr().Interface().(*time.Time)
	n := r.number()
	if n == 0 {
		sec := r.signed()
		*t = time.Unix(sec, int64(r.number())).UTC()
		return
	}
	_ = t.UnmarshalBinary(r.data[:n]) // MarshalBinary made it
	r.data = r.data[n:]
}

func packUSD(p *Packer, v reflect.Value) {
	u := *v.Addr().Interface().(*USD)
	marks := uint64(0)
	if u.reported {
		marks |= 1
	}
	if u.bound {
		marks |= 2
	}
	p.number(marks)
	p.float(u.amount)
}

func unpackUSD(r *unpacker, v reflect.Value) {
	marks := r.number()
	*v.Addr().Interface().(*USD) = USD{amount: r.float(), reported: marks&1 > 0, bound: marks&2 > 0}
}
