package result

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// jobText returns the result.json of a job with so many results.
func jobText(t *testing.T, results int) []byte {
	t.Helper()
	job := Job{JobName: "j", Agents: map[string]Summary{"a": {TotalCostAtLeast: true}}, Skipped: []Key{}, Experiments: []Experiment{{Image: "i"}}, Errors: map[ErrorType]int{}}
	for i := range results {
		job.Results.Append(Outcome{
			Key: Key{Agent: "a", Dataset: "d", Task: fmt.Sprint("task-", i/5), Attempt: i%5 + 1}, Reward: new(float64(i % 2)), Cost: Dollars(0.25),
			CostAtLeast: i%3 == 0, TaskDigest: fmt.Sprint("sha256:", i/5), StartedAt: time.Date(2026, 1, 2, 3, 4, i%60, 0, time.UTC), Experiment: i % 2,
		})
	}
	text, err := Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// resultTexts returns texts by name, some of which are no result of a job.
func resultTexts(t *testing.T) map[string]string {
	text := string(jobText(t, 20))
	change := func(old, new string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("there is no %s", old)
		}
		return strings.Replace(text, old, new, 1)
	}
	texts := map[string]string{
		"as written": text, "no results": string(jobText(t, 0)), "empty": "", "null": "null", "list": "[]", "number": "1", "nothing in it": "{}",
		"more text": text + "x", "two": text + text, "white space": " \n" + text + "\n ", "a trial": `{"agent_name":"a"}`,
		"results null": change(`"results": [`, `"results": null, "other": [`), "results a number": change(`"results": [`, `"results": 1, "other": [`),
		"results twice": change(`"results": [`, `"results": [{"task_name": "x"}], "results": [`), "results null later": change(`"errors"`, `"results": null, "errors"`),
		"another case": change(`"results"`, `"Results"`), "a folded case": change(`"results"`, `"reſults"`), "both cases": change(`"results": [`, `"RESULTS": [{"task_name": "x"}], "results": [`),
		"an escaped name": change(`"results"`, `"r\u0065sults"`), "another delimiter": change(`"results"`, `"re_sults"`),
		"an unknown name": change(`"results"`, `"\u0000<&>\ud800": [1, {"results": 1}], "results"`), "a result null": change(`"results": [`, `"results": [null,`),
		"a result a number": change(`"results": [`, `"results": [1,`), "a result of lists": change(`"results": [`, `"results": [[[]],`),
		"a reward a text": change(`"reward": 0`, `"reward": "0"`), "a cost a text": change(`"cost": 0.25`, `"cost": "x"`), "a name twice": change(`"reward": 0`, `"reward": 5, "reward": 0`),
		"the cases of names": change(`"reward": 0`, `"Reward": 0`), "no comma": change("    },\n    {", "    }\n    {"), "a comma too many": change(`"results": [`, `"results": [,`),
		"another experiment": change(`"experiment": 1`, `"experiment": 7`), "no agents": change(`"agents"`, `"agent"`), "no name": change(`"job_name"`, `"name"`),
		"not UTF-8": change(`"task-0"`, "\"task-\xff\""), "half a surrogate": change(`"task-0"`, `"task-\ud800"`), "large numbers": change(`"attempt": 1`, `"attempt": 1e30`),
		"costs of old": change(`"costs": {`, `"costs": {"environment": 0, "model": 0, "judges": 0,`),
	}
	for n := 1; n < len(text); n += 37 {
		texts[fmt.Sprintf("torn after %d bytes", n)] = text[:n]
	}
	return texts
}

func TestAResultIsReadAsAStreamAsItIsAsAWhole(t *testing.T) {
	dir, streamed := t.TempDir(), 0
	for name, text := range resultTexts(t) {
		path := filepath.Join(dir, "result.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		want, wantErr := ParseJob(path, []byte(text))
		got, _, err := ReadJob(path)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\nand as a whole: %v\n%+v", name, err, got, wantErr, want)
		}
		if _, ok := streamJob(strings.NewReader(text), path, int64(len(text))); ok {
			streamed++
			if wantErr != nil {
				t.Errorf("%s: it was read as a stream, and is %v", name, wantErr)
			}
		}
	}
	if streamed < 5 {
		t.Errorf("only %d were read as a stream", streamed)
	}
}

func TestAResultThatIsAPipeIsRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text := jobText(t, 20)
	go func() {
		_, _ = w.Write(text)
		_ = w.Close()
	}()
	path := fmt.Sprint("/dev/fd/", r.Fd())
	if got, err := readJob(path); err != nil || got.Results.Len() != 20 {
		t.Errorf("%d results, %v", got.Results.Len(), err)
	}
}

// The text of a large result is never in memory as a whole, and its results are there once.
func TestALargeResultTakesTheMemoryOfItsOutcomes(t *testing.T) {
	const results = 50_000
	text := jobText(t, results)
	var before, after runtime.MemStats
	in := bytes.NewReader(text)
	runtime.GC()
	runtime.ReadMemStats(&before)
	job, ok := streamJob(in, "result.json", int64(len(text)))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if !ok || job.Results.Len() != results {
		t.Fatalf("%d results", job.Results.Len())
	}
	size := int(unsafe.Sizeof(row{}))
	if n := cap(job.Results.rows); n > results*11/10 {
		t.Errorf("there is room for %d results", n)
	}
	// A fifth of a task, with two texts, is all that an outcome has besides its row.
	if took := int(after.HeapAlloc - before.HeapAlloc); took > results*(size*11/10+50) {
		t.Errorf("%d results of %d bytes take %d", results, size, took)
	}
	runtime.KeepAlive(job)
	runtime.KeepAlive(text)
}
