//go:build rollout_release

package podinit

import "embed"

// programs has the program of pods for each architecture that .ci/build-podprogram has built it
// for.
//
//go:embed programs/*.gz
var programs embed.FS
