package packing

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// compress replaces the values of a full block by compressed ones.
func (b *Block) compress() {
	b.size, b.data = len(b.data), encoder().EncodeAll(b.data, make([]byte, 0, len(b.data)/4))
}

// encoder and decoder are shared by all blocks: each has buffers of some 100 kB.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(2*blockSize), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // an option is wrong
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// recent keeps the values of the compressed blocks that were read last. It is safe for concurrent
// use.
type recent struct {
	mu    sync.Mutex
	last  int // the place that was filled last
	of    [maxRecent]*Block
	plain [maxRecent][]byte
}

// maxRecent bounds the blocks that are kept. Values that are read by agent while they were packed
// by task come from as many blocks as there are agents. maxRecentBytes bounds their values, except
// those of the last block: one may have a value that is far larger than blockSize.
const (
	maxRecent      = 32
	maxRecentBytes = 2 * maxRecent * blockSize
)

// values returns the values of a compressed block.
func (r *recent) values(b *Block) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range maxRecent { // the newest first
		if i = (r.last + maxRecent - i) % maxRecent; r.of[i] == b {
			return r.plain[i]
		}
	}
	plain, err := decoder().DecodeAll(b.data, make([]byte, 0, b.size))
	if err != nil {
		panic("packing: a block that was compressed here is damaged: " + err.Error())
	}
	r.last = (r.last + 1) % maxRecent
	r.of[r.last], r.plain[r.last] = b, plain
	size := len(plain)
	for i := maxRecent - 1; i > 0; i-- { // from the second newest to the oldest
		old := (r.last + i) % maxRecent
		if size += len(r.plain[old]); size > maxRecentBytes {
			r.of[old], r.plain[old] = nil, nil
		}
	}
	return plain
}
