package record

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestCapturesKeepBothEnds: for all streams and sizes of writes, the file has the beginning, the
// end, and the number of bytes between them, and no more than that is in memory.
func TestCapturesKeepBothEnds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int{1, 2, 999, 1000, 4096, 3 * maxTailBytes} {
		for _, size := range []int{0, 1, limit / 2, limit - 1, limit, limit + 1, 2*limit + 7, 5 * limit} {
			text := make([]byte, size)
			for i := range text {
				text[i] = byte('a' + random.IntN(26))
			}
			dir := t.TempDir()
			c, err := openStream(dir, "out", int64(limit), nil)
			if err != nil {
				t.Fatal(err)
			}
			for rest := text; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(limit+limit/2+1))
				if _, err := c.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
				if len(c.tail) > 2*c.maxTail() {
					t.Fatalf("%d bytes are in memory", len(c.tail))
				}
			}
			omitted := c.close()
			got, err := os.ReadFile(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}
			want := text
			if size > limit {
				tail := min(maxTailBytes, limit/2)
				want = bytes.Join([][]byte{
					text[:limit-tail], fmt.Appendf(nil, "\n[rollout: %d bytes are left out here (max_stream_size is %d)]\n", size-limit, limit), text[size-tail:],
				}, nil)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes of at most %d: %d bytes, want %d", size, limit, len(got), len(want))
			}
			if (omitted != "") != (size > limit) {
				t.Errorf("%d bytes of at most %d: omitted %q", size, limit, omitted)
			}
		}
	}
}
