//go:build !rollout_release

package podinit

import "embed"

// programs is empty: who builds this program from source alone has all of it run in pods.
var programs embed.FS
