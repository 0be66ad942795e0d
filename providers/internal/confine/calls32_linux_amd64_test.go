package confine

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testprogram"
)

// TestPrograms32 runs programs of 32 bits, which name calls by other numbers.
func TestPrograms32(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		dir := p.writableDir(t)
		errnoOf := func(number uint32, o *Options) unix.Errno {
			program := filepath.Join(dir, fmt.Sprint(number))
			testprogram.Write(t, program, string(program32(number)))
			var r result
			if o == nil {
				r = p.free(t, "bash", "-c", `"$0"; echo $?`, program)
			} else {
				r = p.confined(t, *o, "bash", "-c", `"$0"; echo $?`, program)
			}
			code, err := strconv.Atoi(r.stdout[:max(len(r.stdout)-1, 0)])
			if err != nil {
				t.Fatalf("%q %s", r.stdout, r.stderr)
			}
			const cannotRun = 126 // says bash
			if o == nil && code == cannotRun {
				t.Skip("this kernel runs no programs of 32 bits, so nothing has to be kept from them")
			}
			return unix.Errno(code)
		}
		const getuid, keyctl, unshare, chown = 199, 288, 310, 212
		if free, got := errnoOf(getuid, nil), errnoOf(getuid, &Options{}); free != 0 || got != 0 {
			t.Errorf("getuid32: %d, want 0; without the filter %d", got, free)
		}
		for _, number := range []uint32{keyctl, unshare} {
			if free, got := errnoOf(number, nil), errnoOf(number, &Options{}); free == unix.EPERM || got != unix.EPERM {
				t.Errorf("call %d: %v, want EPERM; without the filter %v", number, got, free)
			}
		}
		if got, fake := errnoOf(chown, &Options{}), errnoOf(chown, &Options{FakeOwners: true}); got == 0 || fake != 0 {
			t.Errorf("chown32 of a path that is none: %v; with owners faked %v", got, fake)
		}
	})
}

// program32 returns a program for Linux on i386 that makes one call, with -1 for its arguments, and
// exits with the call's errno.
func program32(number uint32) []byte {
	const base = 0x08048000
	code := []byte{0xb8, byte(number), byte(number >> 8), byte(number >> 16), byte(number >> 24)} // mov eax, number
	for _, register := range []byte{0xbb, 0xb9, 0xba, 0xbe, 0xbf} {                               // mov ebx … edi, -1
		code = append(code, register, 0xff, 0xff, 0xff, 0xff)
	}
	code = append(code,
		0xcd, 0x80, // int 0x80
		0xf7, 0xd8, // neg eax
		0x89, 0xc3, // mov ebx, eax
		0xb8, 1, 0, 0, 0, // mov eax, exit
		0xcd, 0x80)
	le32 := func(values ...uint32) (out []byte) {
		for _, v := range values {
			out = append(out, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		return out
	}
	const headers = 52 + 32
	file := append([]byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0}, // executable, i386
		le32(1, base+headers, 52, 0, 0)...)
	file = append(file, 52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0, 0)
	size := uint32(headers + len(code))
	file = append(file, le32(1, 0, base, base, size, size, 5, 0x1000)...)
	return append(file, code...)
}
