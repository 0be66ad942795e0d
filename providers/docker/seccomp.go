package docker

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// defaultSeccomp is the default seccomp profile of current engines. Older ones let them make
// sockets that no network namespace keeps in (AF_VSOCK reaches the machine's hypervisor), and use
// io_uring and AF_ALG, in which flaws of the kernel were found. Source: github.com/moby/profiles,
// seccomp/default.json of v0.2.3 (Apache-2.0), unchanged.
//
//go:embed seccomp.json
var defaultSeccomp []byte

// seccomp is the profile that containers get: defaultSeccomp, without sockets by socketcall. Their
// family is in memory, where no filter sees it. It is a call of 32-bit programs alone, whose C
// libraries have used socket since Linux 4.3.
var seccomp = sync.OnceValue(func() string {
	var profile map[string]any
	err := json.Unmarshal(defaultSeccomp, &profile)
	rules, ok := profile["syscalls"].([]any)
	if err != nil || !ok {
		panic(fmt.Sprintf("seccomp.json: %v", err)) // it is a part of this program
	}
	for _, rule := range rules {
		rule := rule.(map[string]any)
		rule["names"] = slices.DeleteFunc(rule["names"].([]any), func(name any) bool { return name == "socketcall" })
	}
	const socket = 1 // SYS_SOCKET in <linux/net.h>
	profile["syscalls"] = append(rules, map[string]any{
		"names": []string{"socketcall"}, "action": "SCMP_ACT_ALLOW",
		"args": []any{map[string]any{"index": 0, "value": socket, "op": "SCMP_CMP_NE"}},
	})
	text, err := json.Marshal(profile)
	if err != nil {
		panic(err) // it was JSON
	}
	return string(text)
})

// securityOptions returns the security options of containers. A profile that the engine's
// administrator has chosen, or none, is kept.
func (p *Provider) securityOptions() []string {
	for _, option := range p.info.SecurityOptions {
		fields := strings.Split(option, ",")
		if slices.Contains(fields, "name=seccomp") && (slices.Contains(fields, "profile=default") || slices.Contains(fields, "profile=builtin")) {
			return ourProfile(p)
		}
	}
	return nil
}

// ourProfile returns the option with our profile. Podman wants the name of a file, and reads it
// before it answers.
func ourProfile(p *Provider) []string {
	if !p.podman.Load() {
		return []string{"seccomp=" + seccomp()}
	}
	if p.noProfile.Load() || !isLocal(p.api) {
		return nil
	}
	name, err := profileFile()
	if err != nil {
		return nil
	}
	return []string{"seccomp=" + name}
}
