package kubernetes

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/providers/kubernetes/internal/probe"
)

// findings are the results of the proof for each target.
type findings struct {
	proven []probe.Target // a pod without restrictions reached it promptly, and a restricted one did not
	silent []probe.Target // neither pod reached it
	single []probe.Target // only one pod tried it: they were on different nodes
}

// compareSeen decides about each target from what a pod without restrictions and a restricted one
// have seen. It fails if the silence towards the restricted pod may only be that of a slow server.
func compareSeen(open, denied probe.Seen) (f findings, err error) {
	for _, t := range open.Reached {
		if slices.Contains(denied.Silent, t) {
			f.proven = append(f.proven, t)
		} else {
			f.single = append(f.single, t)
		}
	}
	for _, t := range denied.Silent {
		switch {
		case slices.Contains(open.Reached, t):
		case slices.Contains(open.Silent, t):
			f.silent = append(f.silent, t)
		default:
			f.single = append(f.single, t)
		}
	}
	slow := slices.DeleteFunc(slices.Clone(open.Slow), func(t probe.Target) bool { return !slices.Contains(f.proven, t) })
	if len(slow) > 0 {
		return findings{}, untested("a pod without restrictions gets answers too slowly, so that silence towards a restricted one shows nothing: " + listTargets("", slow))
	}
	named := slices.ContainsFunc(open.Reached, func(t probe.Target) bool { return t.Kind == probe.NameServer })
	if !named && len(open.Mute) > 0 {
		return findings{}, untested("a pod without restrictions gets no answer in time, so that silence towards a restricted one shows nothing: " + listTargets("", open.Mute))
	}
	return f, nil
}

// says describes the findings. accepted lists the kinds of targets that are not tried.
func (f findings) says(accepted []string) string {
	text := "the network is restricted: pods do not reach " + listTargets("another pod", f.proven)
	if len(f.silent) > 0 {
		text += "; not tested, as a pod without restrictions does not reach it either: " + listTargets("", f.silent)
	}
	if len(f.single) > 0 {
		text += "; not tested, as only one of two pods on different nodes tried it: " + listTargets("", f.single)
	}
	if len(accepted) > 0 {
		text += "; not tested, as provider_config.reachable accepts it: " + strings.Join(accepted, ", ")
	}
	return text
}

// tellsHosts reports whether the cluster tells pods all addresses of their node (status.hostIPs,
// from Kubernetes 1.30 on without a feature gate).
func (c *client) tellsHosts(ctx context.Context) bool {
	var version struct {
		Major string `json:"major"`
		Minor string `json:"minor"`
	}
	raw, err := c.core.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil || bounded.Unmarshal(raw, &version) != nil {
		return false
	}
	major, err := strconv.Atoi(version.Major)
	minor, err2 := strconv.Atoi(strings.TrimRight(version.Minor, "+")) // "30+" of some clouds
	return err == nil && err2 == nil && (major > 1 || major == 1 && minor >= 30)
}
