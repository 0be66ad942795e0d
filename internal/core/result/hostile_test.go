package result

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// TestHostileFilesTakeLittleMemory reads each file of a job with lists and objects of very many
// empty elements.
func TestHostileFilesTakeLittleMemory(t *testing.T) {
	many := func(n int, element string) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	key := Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}
	job := func(dir string) error { _, _, err := ReadJob(filepath.Join(dir, ResultFile)); return err }
	plan := func(dir string) error { _, err := ReadPlan(dir); return err }
	planHead := func(dir string) error { _, err := ReadPlanHead(dir); return err }
	jobHead := func(dir string) error { _, err := ReadJobHead(dir); return err }
	verdict := func(dir string) error { _, err := ReadVerdict[map[string]any](dir); return err }
	trial := func(dir string) error { _, errs := ReadTrials(dir, []Key{key}); return errors.Join(errs...) }
	for name, c := range map[string]struct {
		file, text string
		read       func(dir string) error
	}{
		"results":             {ResultFile, `{"job_name":"j","agents":{},"results":[` + many(2_000_000, "{}") + `]}`, job},
		"results that are no": {ResultFile, `{"job_name":"j","agents":{},"results":[` + many(2_000_000, "0") + `]}`, job},
		"agents":              {ResultFile, `{"job_name":"j","agents":{` + many(1_000_000, `"":{}`) + `}}`, job},
		"skipped":             {ResultFile, `{"job_name":"j","agents":{},"skipped":[` + many(2_000_000, "null") + `]}`, job},
		"stops of a head":     {ResultFile, `{"job_name":"j","stopped":[` + many(2_000_000, "{}") + `],"agents":{}}`, jobHead},
		"planned trials":      {PlanFile, `{"trials":[` + many(2_000_000, "{}") + `]}`, plan},
		"planned tasks":       {PlanFile, `{"tasks":[` + many(2_000_000, "{}") + `]}`, plan},
		"planned agents":      {PlanFile, `{"agents":[` + many(2_000_000, "{}") + `]}`, planHead},
		"a verdict":           {VerdictFile, `{"verdict_format":1,"gate":{"":[` + many(600_000, "{}") + `]}}`, verdict},
		"agents of a trial":   {filepath.Join(key.Dir(), ResultFile), `{"agents":[` + many(2_000_000, "{}") + `]}`, trial},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(c.text), 0o600)); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.read(dir)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, bounded.ErrAmplified) {
				t.Errorf("%v", err)
			}
			if name != "stops of a head" && name != "planned agents" && name != "a verdict" && !strings.Contains(fmt.Sprint(err), path) { // their callers name the file
				t.Errorf("%v does not name %s", err, path)
			}
			// The text itself is in memory, several times because it grows, and again where it was
			// first read as a stream. With the race detector, less memory is used again.
			if took := int(after.TotalAlloc - before.TotalAlloc); took > 1<<20+10*len(c.text) {
				t.Errorf("%d bytes allocated for a file of %d", took, len(c.text))
			}
		})
	}
}

// TestAResultOfManyTasksTakesLittleMemory reads trials that share no names, in no order, with large
// numbers: they take the most memory for their text.
func TestAResultOfManyTasksTakesLittleMemory(t *testing.T) {
	const n = 300_000
	var text bytes.Buffer
	text.WriteString(`{"job_name":"j","agents":{"a":{}},"results":[`)
	for i := n; i > 0; i-- {
		fmt.Fprintf(&text, `{"agent_name":"a","task_name":"%d","attempt":40000},`, i)
	}
	text.Truncate(text.Len() - 1)
	text.WriteString("]}")
	path := filepath.Join(t.TempDir(), ResultFile)
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	size := text.Len()
	text = bytes.Buffer{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	job, _, err := ReadJob(path)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || job.Results.Len() != n {
		t.Fatalf("%d results, %v", job.Results.Len(), err)
	}
	if held := int(after.HeapAlloc) - int(before.HeapAlloc); held > 8*size {
		t.Errorf("%d bytes in memory for a file of %d", held, size)
	} else {
		t.Logf("%.1f bytes in memory for each of the file", float64(held)/float64(size))
	}
	runtime.KeepAlive(job)
}

// TestKeysOfManyTasksTakeASmallMultipleOfTheirText reads short keys, each of another task.
func TestKeysOfManyTasksTakeASmallMultipleOfTheirText(t *testing.T) {
	const n = 200_000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"task_name":"%x"},`, i)
	}
	list := []byte(`{"trials":[` + text.String() + `{}]}`)
	took := held(func() (p Plan) {
		if err := bounded.Unmarshal(list, &p); err != nil || p.Trials.Len() != n+1 {
			t.Errorf("%d keys, %v", p.Trials.Len(), err)
		}
		return p
	})
	if took > 4*len(list) {
		t.Errorf("%d bytes held for %d", took, len(list))
	}
}

func TestHeadsHaveFewKeys(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, `"%d":0,`, i)
	}
	if err := os.WriteFile(filepath.Join(dir, PlanFile), []byte(`{`+text.String()+`"tasks":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPlanHead(dir); err == nil {
		t.Error("no error")
	}
}

// TestLargeResultsAreRead reads a result with many small trials.
func TestLargeResultsAreRead(t *testing.T) {
	job := Job{JobName: "j", Agents: map[string]Summary{"a": {}}, Results: OutcomesOf()}
	for i := range 56_320 {
		job.Results.Append(Outcome{Key: Key{Agent: "a", Dataset: "d", Task: fmt.Sprint(i), Attempt: 1}, Reward: new(1.0)})
	}
	data, err := Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ParseJob("result.json", data); err != nil || read.Results.Len() != job.Results.Len() {
		t.Error(read.Results.Len(), err)
	}
}

func BenchmarkParseTrial(b *testing.B) {
	data, err := os.ReadFile(os.Getenv("TRIAL"))
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		var k Key
		_ = bounded.Unmarshal(data, &k)
		var t Trial
		if err := ParseTrial(data, k, &t); err != nil {
			b.Fatal(err)
		}
	}
}
