package report

import (
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/result"
)

// TestHostileFilesOfATrialTakeLittleMemory reads files of agents and verifiers with very many empty
// elements.
func TestHostileFilesOfATrialTakeLittleMemory(t *testing.T) {
	many := func(element string) string { return strings.Repeat(element, 1_000_000) }
	trial := result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}}
	verifier := trial.Dir() + "/" + result.VerifierDir
	trajectory := trial.Dir() + "/" + result.ATIFFile
	steps := func(in Input) bool { _, err := Trajectory(in, trajectory); return err == nil }
	tests := func(in Input) bool { _, ok := VerifierTests(in, trial); return ok }
	for name, c := range map[string]struct {
		file, text string
		read       func(Input) bool
		times      int // how often the text may be in memory
	}{
		"steps":       {trajectory, `{"steps":[` + many("{},") + `{}]}`, steps, 8},
		"sub-agents":  {trajectory, `{"subagent_trajectories":[` + many("{},") + `{}]}`, steps, 8},
		"extra":       {trajectory, `{"extra":{"x":[` + many("[],") + `[]]}}`, steps, 8},
		"suites":      {verifier + "/ctrf.json", `{"results":{"tests":[{"suite":[` + many("[],") + `""]}]}}`, tests, 20},
		"attributes":  {verifier + "/junit.xml", `<testsuites ` + many(`a="" `) + `><testcase name="x"/></testsuites>`, tests, 8},
		"hidden tags": {verifier + "/junit.xml", `<testsuites><![CDATA[<]]><x ` + many(`a="" `) + `/><testcase name="x"/></testsuites>`, tests, 8},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Files: fstest.MapFS{c.file: {Data: []byte(c.text)}}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ok := c.read(in)
			runtime.ReadMemStats(&after)
			if ok && name != "suites" && name != "extra" { // a suite of a wrong type is ignored, and extra is not decoded
				t.Error("it was accepted")
			}
			if took := int(after.TotalAlloc - before.TotalAlloc); took > 1<<20+c.times*len(c.text) {
				t.Errorf("%d bytes allocated for %d", took, len(c.text))
			}
		})
	}
}

func TestTagsInTextAreNotCounted(t *testing.T) {
	text := strings.Repeat(`<a href="x" it's `, 3000)
	tests, err := parseJUnit([]byte(`<testsuites><!-- ' <x " --><testcase name="x"><failure message="say &quot;>">said a="b" ` +
		strings.Repeat(`c="d" `, 3000) + `<![CDATA[` + text + `]]></failure></testcase></testsuites>`))
	if err != nil || tests.Failed != 1 {
		t.Error(tests.Failed, err)
	}
}
