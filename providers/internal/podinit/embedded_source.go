//go:build !rollout_release

package podinit

import "embed"

// programs is empty: pods of a build from source run the whole program.
var programs embed.FS
