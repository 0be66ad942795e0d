package result

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadHeadStopsAtTheLongLists(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.json")
	var b bytes.Buffer
	b.WriteString(`{"job_name": "j", "later": {"a": [1, {"tasks": 2}]}, "digest": "d", "tasks": [ this is never parsed, } `)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	head, err := readHead[Plan](path, "tasks")
	if err != nil || head.JobName != "j" || head.Digest != "d" {
		t.Errorf("got %+v, %v", head, err)
	}
	for name, text := range map[string]string{
		"torn":     `{"job_name": "j", "digest": "d", "tasks": [`,
		"a list":   `[{}]`,
		"empty":    ``,
		"no JSON":  `hello}`,
		"too long": `{"job_name": "` + strings.Repeat("x", 2*maxHead) + `"}`,
		"numbers":  `{"job_name": 3}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if head, err := readHead[Plan](path, "tasks"); err == nil {
			t.Errorf("%s: got %+v", name, head)
		}
	}
}
