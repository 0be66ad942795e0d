//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShowFollowsARunningTrialOnATerminal(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 1)
		file := filepath.Join(j.dir, "job.yaml")
		text, err := os.ReadFile(file)
		must(t, err)
		hostile := strings.Replace(string(text), "echo working", `printf 'a \033[31mred\033[0m line\n::error::gotcha\n\033]0;title\007'; echo working`, 1)
		must(t, os.WriteFile(file, []byte(hostile), 0o644))
		r := onTerminal(t, j.dir, "run", "job.yaml")
		r.await(t, "agent")
		dir := filepath.Join("jobs", j.name)
		watcher := onTerminal(t, j.dir, "show", dir, "hang__1", "--follow")
		watcher.await(t, "working")
		watcher.write(t, "\x03")
		if code := watcher.exit(t); code != 130 {
			t.Errorf("following ended with %d", code)
		}
		logs := onTerminal(t, j.dir, "show", dir, "hang__1", "--log", "command")
		if code := logs.exit(t); code != 0 {
			t.Errorf("--log ended with %d", code)
		}
		for name, shown := range map[string]string{"--follow": watcher.text(), "--log": logs.text()} {
			if want := "a red line\r\n: :error::gotcha\r\nworking\r\n"; !strings.Contains(shown, want) || strings.Contains(shown, "\x1b") || strings.Contains(shown, "rollout:") {
				t.Errorf("%s showed %q, want %q", name, shown, want)
			}
		}
		r.write(t, "\x03")
		if code := r.exit(t); code != 130 {
			t.Errorf("the job ended with %d", code)
		}
	})
}
