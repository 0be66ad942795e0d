package dockerfile

import (
	"fmt"
	"runtime"

	"github.com/containerd/platforms"
)

// readPlatform gives a platform in its normal form: "linux/arm64/v8" is "linux/arm64". Empty is this machine's processor
// with linux.
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

// platformArgs are the arguments that every Dockerfile knows, for a build on the platform that it is for.
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
