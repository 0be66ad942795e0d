package modal

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// program is the program that sandboxes run, as it is sent to them.
type program struct{ read func() (programBytes, error) }

type programBytes struct{ plain, compressed []byte }

func newProgram(own func() ([]byte, error)) *program {
	if own == nil {
		own = func() ([]byte, error) {
			files, err := podinit.ProgramFS(architecture)
			if err != nil {
				return nil, err
			}
			return fs.ReadFile(files, podinit.Installer)
		}
	}
	return &program{sync.OnceValues(func() (programBytes, error) {
		plain, err := own()
		if err != nil {
			return programBytes{}, &environment.Error{Kind: environment.KindUnavailable, Err: err}
		}
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(plain) // a buffer takes all
		_ = w.Close()
		return programBytes{plain, b.Bytes()}, nil
	})}
}

// The command of a sandbox waits for the guest's program, which comes over an exec, and becomes it:
// so the sandbox ends with the guest. A sandbox whose client has died ends after some minutes.
const awaitGuest = `n=0
until [ -x ` + podinit.Program + ` ]; do
	n=$((n+1)); [ $n -lt 6000 ] || exit 1
	sleep 0.05 2>/dev/null || sleep 1
done
exec ` + podinit.Program + " " + podinit.Below

// installGuest reads the program, $1 bytes, waits until it serves, says so, and becomes its
// connector: what follows on its input is the connection. $2 is 1 if the program is compressed.
const installGuest = `umask 022
fail() { echo "$1"; exit 1; }
[ "$2" = 0 ] || command -v gzip >/dev/null || { echo "` + noGzip + `"; exit 1; }
if [ ! -x ` + podinit.Program + ` ]; then
	mkdir -p ` + podinit.Dir + ` || fail "` + podinit.Dir + ` cannot be made"
	new=` + podinit.Dir + `/new.$$
	if [ "$2" = 1 ]; then head -c "$1" | gzip -dc >$new; else head -c "$1" >$new; fi || fail "the program cannot be written"
	chmod 755 $new && cp -f $new ` + podinit.Connector + ` && mv -f $new ` + podinit.Program + ` || fail "the program cannot be moved"
else
	head -c "$1" >/dev/null
fi
n=0
until case $(cat /proc/net/unix) in *@rollout-guest*) true;; *) false;; esac; do
	n=$((n+1)); [ $n -lt 1200 ] || fail "the program does not start"
	sleep 0.05 2>/dev/null || sleep 1
done
echo ` + guestReady + `
exec ` + podinit.Connector

// What installGuest prints in its first line.
const (
	guestReady = "ready"
	noGzip     = "there is no gzip"
)
