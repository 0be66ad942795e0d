package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by release builds: -ldflags "-X …/internal/cli.version=v1.2.3".
var version = ""

func versionLine() string {
	return fmt.Sprintf("rollout %s (%s, %s/%s)", cmp.Or(buildVersion(), "development build"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion returns the version of this program: of its release, or of the module that it was
// installed from; "" if it has none.
func buildVersion() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = info.Main.Version
	}
	if v == "(devel)" {
		return ""
	}
	return v
}
