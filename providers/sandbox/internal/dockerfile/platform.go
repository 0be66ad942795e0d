package dockerfile

import (
	"fmt"
	"runtime"

	"github.com/containerd/platforms"
)

// readPlatform parses a platform and normalises it: "linux/arm64/v8" becomes "linux/arm64". Empty
// is linux on this machine's architecture.
func readPlatform(text string) (platforms.Platform, error) {
	if text == "" {
		text = "linux/" + runtime.GOARCH
	}
	p, err := platforms.Parse(text)
	if err != nil {
		return p, fmt.Errorf("platform %q: %w", text, err)
	}
	return platforms.Normalize(p), nil
}

// platformArgs returns the predefined platform arguments. The build's platform equals the target's.
func platformArgs(p platforms.Platform, target string) environ {
	if target == "" {
		target = "default"
	}
	var e environ
	for _, side := range []string{"BUILD", "TARGET"} {
		e = e.with(side+"PLATFORM", platforms.Format(p)).
			with(side+"OS", p.OS).
			with(side+"OSVERSION", p.OSVersion).
			with(side+"ARCH", p.Architecture).
			with(side+"VARIANT", p.Variant)
	}
	return e.with("TARGETSTAGE", target)
}
