package modal

import (
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/podinit"
)

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
` + hosted.AwaitSocket + `echo ` + guestReady + `
exec ` + podinit.Connector

// What installGuest prints in its first line.
const (
	guestReady = "ready"
	noGzip     = "there is no gzip"
)
