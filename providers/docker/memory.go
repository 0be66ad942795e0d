package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
)

// countKills prints the container's count of processes that were killed for memory: of control
// groups of version 2, or of version 1, where it exists since Linux 4.13. Only builtins of bash are
// used.
const countKills = `for list in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r name count; do [[ $name == oom_kill ]] && echo "$count"; done <"$list"
done 2>/dev/null`

// countTime bounds the counting, which only serves a message.
const countTime = 10 * time.Second

// OOMKills implements environment.MemoryReporter. Every engine reports whether a container's first
// process was killed, but not all report the others, so the container's own control group is read.
func (e *containerEnv) OOMKills(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	var said bytes.Buffer
	if p, err := e.start(ctx, ownCommand(countKills), nil, &limited{&said, 1 << 10}, io.Discard); err == nil {
		_, err = p.wait(ctx)
		p.drain(0)
		if err == nil {
			n, _ := strconv.Atoi(strings.TrimSpace(said.String()))
			return max(0, n)
		}
	}
	state, err := e.p.api.ContainerInspect(ctx, e.id)
	if err == nil && state.State != nil && state.State.OOMKilled {
		return 1
	}
	return 0
}

// limited is a writer that keeps a number of bytes and discards the rest.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, err := l.to.Write(p[:n])
	return len(p), err
}

// Processes implements environment.ProcessReporter.
func (e *containerEnv) Processes(ctx context.Context) (n, limit int64) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	stats, err := e.p.api.ContainerStatsOneShot(ctx, e.id)
	if err != nil {
		return 0, 0
	}
	defer stats.Body.Close()
	var counted container.StatsResponse
	if json.NewDecoder(io.LimitReader(stats.Body, maxAnswer)).Decode(&counted) != nil || counted.PidsStats.Limit > math.MaxInt32 {
		return 0, 0
	}
	if limit = int64(counted.PidsStats.Limit); limit == 0 { // Podman does not say it there
		if state, err := e.p.api.ContainerInspect(ctx, e.id); err == nil && state.HostConfig != nil && state.HostConfig.PidsLimit != nil {
			limit = *state.HostConfig.PidsLimit
		}
	}
	return int64(counted.PidsStats.Current), limit
}
