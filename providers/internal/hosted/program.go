package hosted

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"io/fs"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// Program is the guest's program, as it is sent to sandboxes.
type Program struct{ read func() (Content, error) }

// Content is a program.
type Content struct{ Plain, Compressed []byte } // Compressed is for gzip

// NewProgram returns the program for machines of an architecture, as Go names it. own, if not nil,
// returns another one.
func NewProgram(goarch string, own func() ([]byte, error)) *Program {
	if own == nil {
		own = func() ([]byte, error) {
			files, err := podinit.ProgramFS(goarch)
			if err != nil {
				return nil, err
			}
			return fs.ReadFile(files, podinit.Installer)
		}
	}
	return &Program{sync.OnceValues(func() (Content, error) {
		plain, err := own()
		if err != nil {
			return Content{}, &environment.Error{Kind: environment.KindUnavailable, Err: err}
		}
		return Content{plain, compressed(plain)}, nil
	})}
}

// programs are functions that return the compressed programs of this process, by the digests of the
// plain ones. There are one or two; to compress them takes longer than all else that a provider
// does to begin.
var programs sync.Map

func compressed(plain []byte) []byte {
	known, _ := programs.LoadOrStore(sha256.Sum256(plain), sync.OnceValue(func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(plain) // a buffer takes all
		_ = w.Close()
		return b.Bytes()
	}))
	return known.(func() []byte)()
}

// Read returns the program. Fails with KindUnavailable.
func (p *Program) Read() (Content, error) { return p.read() }

// AwaitProgram is the part of a sandbox's script that waits for the guest's program. A sandbox
// whose client has died ends after some minutes.
const AwaitProgram = `n=0
until [ -x ` + podinit.Program + ` ]; do
	n=$((n+1)); [ $n -lt 6000 ] || exit 1
	sleep 0.05 2>/dev/null || { sleep 1; n=$((n+19)); }
done
`

// AwaitGuest is the script of a sandbox: it waits for the guest's program, and becomes it, so that
// the sandbox ends with the guest.
const AwaitGuest = AwaitProgram + "exec " + podinit.Program + " " + podinit.Below

// AwaitSocket is the part of a script that waits until the guest serves. The script has a function
// fail, which prints a message and ends it.
const AwaitSocket = `n=0
until case $(cat /proc/net/unix) in *@rollout-guest*) true;; *) false;; esac; do
	n=$((n+1)); [ $n -lt 1200 ] || fail "the program does not start"
	sleep 0.05 2>/dev/null || { sleep 1; n=$((n+19)); }
done
`

// OneLine returns a text of others for messages: bounded, and without control characters.
func OneLine(text string) string {
	const most = 500
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	clean = strings.TrimSpace(clean)
	return strings.ToValidUTF8(clean[:min(len(clean), most)], "")
}
