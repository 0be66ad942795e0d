package docker

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// lastLogs returns the end of the output of the container's first process; empty if unknown.
func (e *containerEnv) lastLogs(ctx context.Context) string {
	logs, err := e.p.api.ContainerLogs(ctx, e.id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return ""
	}
	defer logs.Close()
	var text bytes.Buffer
	_, _ = stdcopy.StdCopy(&text, &text, io.LimitReader(logs, maxServiceLog)) // the text that could be read is quoted; a line may have any length
	return strings.TrimSpace(strings.ToValidUTF8(text.String(), "\uFFFD"))
}
