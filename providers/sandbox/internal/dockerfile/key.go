package dockerfile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
)

// keyVersion must change when the layer of an instruction changes.
const keyVersion = "dockerfile layer 1"

// key is the digest of all inputs of a layer. Each field is preceded by its length, and each list
// by its count, so different instructions have different keys.
type key struct{ sum hash.Hash }

func newKey(kind string) key {
	k := key{sha256.New()}
	k.text(keyVersion, kind)
	return k
}

func (k key) text(fields ...string) {
	for _, field := range fields {
		k.number(int64(len(field)))
		_, _ = io.WriteString(k.sum, field)
	}
}

func (k key) list(fields []string) {
	k.number(int64(len(fields)))
	k.text(fields...)
}

func (k key) number(n int64) {
	_ = binary.Write(k.sum, binary.BigEndian, n)
}

func (k key) flag(b bool) {
	if b {
		k.number(1)
	} else {
		k.number(0)
	}
}

func (k key) String() string { return hex.EncodeToString(k.sum.Sum(nil)) }
