// Package packing keeps values of Go types in little memory, without knowing what they are for:
// numbers take few bytes, and texts that values share are there once.
package packing

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"time"
)

// Value is a type whose fields are not exported, or that has a shorter form than they have.
type Value interface {
	Pack(p *Packer)
	Unpack(r *Reader)
}

// Form packs values of a type T. It is safe for concurrent use.
type Form[T any] struct{ of *form }

// FormOf returns the form of a type. It panics if the type has a part that cannot be packed, such
// as an interface.
func FormOf[T any]() Form[T] { return Form[T]{formOf(reflect.TypeFor[T](), map[reflect.Type]*form{})} }

// Pack packs a value. Unpack returns an equal one from the block and the place in it.
func (f Form[T]) Pack(p *Packer, v *T) (in *Block, at int32) {
	if p.shared == nil {
		p.shared, p.index = &shared{}, map[string]int{}
	}
	if p.current == nil || len(p.current.data) >= blockSize {
		if p.Dense && p.current != nil {
			p.current.compress()
		}
		p.current = &Block{data: make([]byte, 0, blockSize+blockSize/8), shared: p.shared}
	}
	in, at = p.current, int32(len(p.current.data))
	f.of.pack(p, reflect.ValueOf(v).Elem())
	return in, at
}

// Unpack sets a zero value to the one that was packed. It takes about a microsecond.
func (f Form[T]) Unpack(in *Block, at int32, into *T) {
	f.of.unpack(in.Reader(at), reflect.ValueOf(into).Elem())
}

// Block holds packed values one after the other.
type Block struct {
	data   []byte // compressed if size is not 0
	size   int    // of the values of a compressed block, in bytes
	shared *shared
}

// Reader returns a reader of the value at a place, for callers that know the beginning of its form:
// for each field of a struct that is not zero, its number from 1 and its value, and then a 0.
func (b *Block) Reader(at int32) *Reader {
	data := b.data
	if b.size > 0 {
		data = b.shared.recent.values(b)
	}
	return &Reader{data: data[at:], shared: b.shared}
}

// Len returns the number of bytes that the values so far take.
func (b *Block) Len() int { return len(b.data) }

// shared is what all blocks of a Packer have in common.
type shared struct {
	texts  []string
	recent recent
}

// Bounds of the memory of a Packer: bytes of a block, and texts that are shared. Other texts are
// in the values themselves.
const (
	blockSize = 64 << 10
	maxTexts  = 1 << 17
)

// Packer packs values into blocks. It is not safe for concurrent use, nor while one of its values
// is unpacked. The zero Packer is ready to use.
type Packer struct {
	// Dense compresses each block once it is full, to about a third. Reading values in their order
	// costs little more then; another order costs up to 0.1 ms each.
	Dense bool

	current *Block
	shared  *shared
	index   map[string]int
}

// The packed form of a struct is, for each field that is not zero, its number from 1 and its value,
// and then a 0.

// form packs and unpacks values of one type.
type form struct {
	pack   func(p *Packer, v reflect.Value)
	unpack func(r *Reader, v reflect.Value)
}

// formOf returns the form of a type. known has those that are made or being made, as types may
// contain each other.
func formOf(t reflect.Type, known map[reflect.Type]*form) *form {
	if f, ok := known[t]; ok {
		return f
	}
	f := &form{}
	known[t] = f
	switch {
	case t == reflect.TypeFor[time.Time]():
		f.pack, f.unpack = packTime, unpackTime
		return f
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Value]()):
		f.pack = func(p *Packer, v reflect.Value) { v.Addr().Interface().(Value).Pack(p) }
		f.unpack = func(r *Reader, v reflect.Value) { v.Addr().Interface().(Value).Unpack(r) }
		return f
	}
	switch t.Kind() {
	case reflect.Bool:
		f.pack = func(p *Packer, v reflect.Value) { p.Number(map[bool]uint64{true: 1}[v.Bool()]) }
		f.unpack = func(r *Reader, v reflect.Value) { v.SetBool(r.Number() == 1) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.pack = func(p *Packer, v reflect.Value) { p.Signed(v.Int()) }
		f.unpack = func(r *Reader, v reflect.Value) { v.SetInt(r.Signed()) }
	case reflect.Uint8:
		f.pack = func(p *Packer, v reflect.Value) { p.Number(v.Uint()) }
		f.unpack = func(r *Reader, v reflect.Value) { v.SetUint(r.Number()) }
	case reflect.Float64:
		f.pack = func(p *Packer, v reflect.Value) { p.Float(v.Float()) }
		f.unpack = func(r *Reader, v reflect.Value) { v.SetFloat(r.Float()) }
	case reflect.String:
		f.pack = func(p *Packer, v reflect.Value) { p.Text(v.String()) }
		f.unpack = func(r *Reader, v reflect.Value) { v.SetString(r.Text()) }
	case reflect.Pointer:
		f.pointer(t, known)
	case reflect.Slice:
		f.slice(t, known)
	case reflect.Map:
		f.keyed(t, known)
	case reflect.Struct:
		f.fields(t, known)
	default:
		panic(fmt.Sprintf("packing: there is no form for a %s", t))
	}
	return f
}

func (f *form) pointer(t reflect.Type, known map[reflect.Type]*form) {
	of := formOf(t.Elem(), known)
	f.pack = func(p *Packer, v reflect.Value) { of.pack(p, v.Elem()) }
	f.unpack = func(r *Reader, v reflect.Value) {
		v.Set(reflect.New(t.Elem()))
		of.unpack(r, v.Elem())
	}
}

func (f *form) slice(t reflect.Type, known map[reflect.Type]*form) {
	of := formOf(t.Elem(), known)
	f.pack = func(p *Packer, v reflect.Value) {
		p.Number(uint64(v.Len()))
		for i := range v.Len() {
			of.pack(p, v.Index(i))
		}
	}
	f.unpack = func(r *Reader, v reflect.Value) {
		n := int(r.Number())
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			of.unpack(r, v.Index(i))
		}
	}
}

// keyed sets the form of a type of maps. Values that are pointers may be nil.
func (f *form) keyed(t reflect.Type, known map[reflect.Type]*form) {
	key, of := formOf(t.Key(), known), formOf(t.Elem(), known)
	f.pack = func(p *Packer, v reflect.Value) {
		p.Number(uint64(v.Len()))
		for entries := v.MapRange(); entries.Next(); {
			key.pack(p, entries.Key())
			if entries.Value().IsZero() {
				p.Number(0)
				continue
			}
			p.Number(1)
			of.pack(p, entries.Value())
		}
	}
	f.unpack = func(r *Reader, v reflect.Value) {
		n := int(r.Number())
		v.Set(reflect.MakeMapWithSize(t, n))
		for range n {
			k, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			key.unpack(r, k)
			if r.Number() == 1 {
				of.unpack(r, value)
			}
			v.SetMapIndex(k, value)
		}
	}
}

func (f *form) fields(t reflect.Type, known map[reflect.Type]*form) {
	of := make([]*form, t.NumField())
	for i := range of {
		if !t.Field(i).IsExported() {
			panic(fmt.Sprintf("packing: a %s has a field %s, which cannot be packed", t, t.Field(i).Name))
		}
		of[i] = formOf(t.Field(i).Type, known)
	}
	f.pack = func(p *Packer, v reflect.Value) {
		for i, field := range of {
			if value := v.Field(i); !value.IsZero() {
				p.Number(uint64(i) + 1)
				field.pack(p, value)
			}
		}
		p.Number(0)
	}
	f.unpack = func(r *Reader, v reflect.Value) {
		for n := r.Number(); n > 0; n = r.Number() {
			of[n-1].unpack(r, v.Field(int(n)-1))
		}
	}
}

// Number appends a number: small ones take one byte.
func (p *Packer) Number(n uint64) { p.current.data = binary.AppendUvarint(p.current.data, n) }

// Signed appends a number that may be negative.
func (p *Packer) Signed(n int64) { p.current.data = binary.AppendVarint(p.current.data, n) }

// Float appends a number. Most have few decimal places: durations, costs and rewards. They are a
// number of thousandths or millionths, four times, and one or two. Before others is a 0.
func (p *Packer) Float(f float64) {
	for i, scale := range scales {
		scaled := math.Round(f * scale)
		if n := int64(scaled); math.Abs(scaled) < 1<<50 && math.Float64bits(float64(n)/scale) == math.Float64bits(f) {
			p.Number(uint64(n<<1^n>>63)<<2 | uint64(i+1))
			return
		}
	}
	p.Number(0)
	p.Number(bits.ReverseBytes64(math.Float64bits(f)))
}

var scales = [...]float64{1e3, 1e6}

// Text appends a text: twice its number among the shared ones, or else twice its length and one,
// and its bytes.
func (p *Packer) Text(s string) {
	n, ok := p.index[s]
	switch {
	case ok:
	case len(s) < MaxShared && len(p.shared.texts) < maxTexts:
		n = len(p.shared.texts)
		p.shared.texts, p.index[s] = append(p.shared.texts, s), n
	default:
		p.Number(uint64(len(s))<<1 | 1)
		p.current.data = append(p.current.data, s...)
		return
	}
	p.Number(uint64(n) << 1)
}

// MaxShared bounds texts that are shared, in bytes: digests and names are shorter, messages longer.
const MaxShared = 256

// Reader reads what a Packer appended.
type Reader struct {
	data   []byte
	shared *shared
}

// Number returns what Packer.Number appended.
func (r *Reader) Number() uint64 {
	n, size := binary.Uvarint(r.data)
	r.data = r.data[size:]
	return n
}

// Signed returns what Packer.Signed appended.
func (r *Reader) Signed() int64 {
	n, size := binary.Varint(r.data)
	r.data = r.data[size:]
	return n
}

// Float returns what Packer.Float appended.
func (r *Reader) Float() float64 {
	n := r.Number()
	if n == 0 {
		return math.Float64frombits(bits.ReverseBytes64(r.Number()))
	}
	scaled := n >> 2
	return float64(int64(scaled>>1)^-int64(scaled&1)) / scales[n&3-1]
}

// Text returns what Packer.Text appended.
func (r *Reader) Text() string {
	n := r.Number()
	if n&1 == 0 {
		return r.shared.texts[n>>1]
	}
	s := string(r.data[:n>>1])
	r.data = r.data[n>>1:]
	return s
}

// packTime appends a time. Files have UTC; another zone is kept as an offset.
func packTime(p *Packer, v reflect.Value) {
	t := *v.Addr().Interface().(*time.Time)
	if t.Location() == time.UTC {
		p.Number(0)
		p.Signed(t.Unix())
		p.Number(uint64(t.Nanosecond()))
		return
	}
	text, err := t.MarshalBinary()
	if err != nil { // an offset that RFC 3339 does not have either
		text, _ = t.UTC().MarshalBinary()
	}
	p.Number(uint64(len(text)))
	p.current.data = append(p.current.data, text...)
}

func unpackTime(r *Reader, v reflect.Value) {
	t := v.Addr().Interface().(*time.Time)
	n := r.Number()
	if n == 0 {
		sec := r.Signed()
		*t = time.Unix(sec, int64(r.Number())).UTC()
		return
	}
	_ = t.UnmarshalBinary(r.data[:n]) // MarshalBinary made it
	r.data = r.data[n:]
}
