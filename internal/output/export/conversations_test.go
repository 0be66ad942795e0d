package export

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
)

func said(role, s string) model.Message {
	return model.Message{Role: role, Parts: []model.Part{{Type: model.PartText, Text: s}}}
}

// record writes a trial's record: two calls of the agent, between them one of a sub-agent, then a
// call after a compaction. Texts are hostile.
func record(t *testing.T, dir string, trial result.Trial) {
	t.Helper()
	var b bytes.Buffer
	r := model.NewRecorder(&b, 1<<30)
	tools := []model.Tool{{Name: "bash", Parameters: json.RawMessage(`{"type":"object"}`)}}
	system, user := said("system", "You are."), said("user", "Do it\u202e ##[error]\x1b[31m.")
	called := model.Message{Role: "assistant", Parts: []model.Part{{Type: model.PartReasoning, Text: "Hm."}, {Type: model.PartCall, ID: "c1", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}}}
	result := model.Message{Role: "tool", Parts: []model.Part{{Type: model.PartResult, ID: "c1", Text: "a.txt"}}}
	for i, one := range []struct {
		agent  string
		asked  []model.Message
		answer model.Message
	}{
		{"", []model.Message{system, user}, called},
		{"helper", []model.Message{said("system", "You help."), said("user", "Look.")}, said("assistant", "Found.")},
		{"", []model.Message{system, user, called, result}, said("assistant", "Almost.")},
		{"", []model.Message{system, said("user", "The summary.")}, said("assistant", "Done.")},
	} {
		offered := tools
		if one.agent != "" {
			offered = nil
		}
		at := time.Date(2026, 11, 23, 5, 0, i, 0, time.UTC)
		err := r.Record(model.Turn{
			N: i + 1, Agent: one.agent, Whole: true, Began: at, Ended: at.Add(time.Second),
			Conversation: model.Conversation{Messages: one.asked, Tools: offered}, Answer: model.Answer{Message: one.answer, Model: "small", Finish: "stop", Usage: model.Usage{Input: new(int64(9)), Output: new(int64(3))}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(trial.Dir()), "trajectory.jsonl"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordedJob is jobDir with a record of the first trial of agent a and of the first of agent b.
func recordedJob(t *testing.T) string {
	t.Helper()
	dir := jobDir(t, func(_ *result.Plan, trials []result.Trial) {
		for i := range trials {
			trials[i].Usage = &result.Usage{Turns: 4, Calls: 4}
		}
	})
	for _, agent := range []string{"a", "b"} {
		record(t, dir, result.Trial{Key: result.Key{Agent: agent, Dataset: "set", Task: "add", Attempt: 2}})
	}
	return dir
}

func export(t *testing.T, opts Options) (string, Report) {
	t.Helper()
	var out bytes.Buffer
	report, err := Write(t.Context(), &out, opts)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), report
}

func TestSFTHasALineForEachBranch(t *testing.T) {
	dir := recordedJob(t)
	text, report := export(t, Options{Dir: dir, Format: "sft"})
	if report.Trials != 2 || report.NoConversation != 9 || report.Missing != 1 || report.Planned != 12 {
		t.Errorf("%+v", report)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 6 || strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "##[") {
		t.Fatalf("%d lines: %s", len(lines), text)
	}
	for i, want := range []struct{ id, roles, last string }{
		{"#1", "system user assistant", "Found."}, {"", "system user assistant tool assistant", "Almost."}, {"", "system user assistant", "Done."},
	} {
		var b Branch
		if err := json.Unmarshal([]byte(lines[i]), &b); err != nil {
			t.Fatal(err)
		}
		var roles []string
		for _, m := range b.Messages {
			roles = append(roles, m.Role)
		}
		key := result.Key{Agent: "a", Dataset: "set", Task: "add", Attempt: 2}
		if strings.Join(roles, " ") != want.roles || b.Messages[len(b.Messages)-1].Content != want.last || b.ID != key.String()+want.id || (len(b.Tools) == 0) != (want.id != "") || *b.Reward != 1 || b.Dir != key.Dir() {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
	if !strings.Contains(lines[1], `"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]`) || !strings.Contains(lines[1], `"tool_call_id":"c1"`) {
		t.Errorf("%s", lines[1])
	}
	if _, report := export(t, Options{Dir: dir, Format: "sft", MinReward: new(1.5)}); report.Trials != 0 || report.Below != 11 {
		t.Errorf("min reward: %+v", report)
	}
}

func TestATIFIsAnArchiveOfTrajectories(t *testing.T) {
	dir := recordedJob(t)
	made := result.Key{Agent: "a", Dataset: "set", Task: "add", Attempt: 2} // b's is made of the record: its run was killed
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(made.Dir()), "trajectory.json"), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text, report := export(t, Options{Dir: dir, Format: "atif"})
	if report.Trials != 2 || report.NoConversation != 9 {
		t.Errorf("%+v", report)
	}
	files := map[string]string{}
	for r := tar.NewReader(strings.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(body)
	}
	made2 := made
	made2.Agent = "b"
	if len(files) != 2 || files[made.Dir()+"/trajectory.json"] != "{}\n" || !strings.Contains(files[made2.Dir()+"/trajectory.json"], `"schema_version": "ATIF-v1.8"`) {
		t.Errorf("%q", files)
	}
}

// The archive has a file for each step in which the agent wrote a trajectory.
func TestATIFHasWhatAgentsReportInSteps(t *testing.T) {
	key := result.Key{Agent: "a", Dataset: "set", Task: "add", Attempt: 2}
	dir := jobDir(t, func(_ *result.Plan, trials []result.Trial) {
		for i := range trials {
			if trials[i].Key == key {
				trials[i].Usage = &result.Usage{Turns: 2, ReportedBy: "agent"}
				trials[i].Steps = []result.StepRun{{Name: "build"}, {Name: "none"}, {Name: "extend"}, {Name: "../out"}}
			}
		}
	})
	for _, step := range []string{"build", "extend"} {
		at := filepath.Join(dir, filepath.FromSlash(key.Dir()), "steps", step, "logs", "agent")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "trajectory.json"), []byte(`{"step":"`+step+`"}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, report := export(t, Options{Dir: dir, Format: "atif"})
	if report.Trials != 1 {
		t.Errorf("%+v", report)
	}
	var names []string
	for r := tar.NewReader(strings.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(h.Name, key.Dir()+"/"))
	}
	if got := strings.Join(names, " "); got != "steps/build/trajectory.json steps/extend/trajectory.json" {
		t.Errorf("the archive has %s", got)
	}
}

func TestOutputsHaveConversations(t *testing.T) {
	text, _ := export(t, Options{Dir: recordedJob(t), Format: "outputs"})
	for line := range strings.Lines(text) {
		var o struct {
			Agent, Task string
			Attempt     int
			Completion  []struct{ Role, Content string }
			Trajectory  []struct {
				Prompt, Completion []struct{ Role string }
				ID                 string `json:"trajectory_id"`
			}
			Tools []any `json:"tool_defs"`
			Usage *result.Usage
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		if o.Task != "add" || o.Attempt != 2 {
			if o.Completion != nil || o.Trajectory != nil || o.Tools != nil || o.Usage == nil {
				t.Errorf("%s", line)
			}
			continue
		}
		var texts []string
		for _, m := range o.Completion {
			texts = append(texts, m.Role+":"+m.Content)
		}
		if got := strings.Join(texts, " "); got != "assistant: tool:a.txt assistant:Almost. user:The summary. assistant:Done." {
			t.Errorf("completion: %s", got)
		}
		if len(o.Trajectory) != 4 || len(o.Trajectory[2].Prompt) != 4 || !strings.HasSuffix(o.Trajectory[1].ID, "#1") || len(o.Tools) != 1 || o.Usage.Turns != 4 {
			t.Errorf("%s", line)
		}
	}
}

func TestRecordsAreHostile(t *testing.T) {
	dir := recordedJob(t)
	at := func(agent string) string {
		return filepath.Join(dir, filepath.FromSlash(result.Key{Agent: agent, Dataset: "set", Task: "add", Attempt: 2}.Dir()), "trajectory.jsonl")
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.Rename(at("a"), outside), os.Symlink(outside, at("a"))); err != nil {
		t.Fatal(err)
	}
	// Messages that follow each other in a circle, lines that are none.
	hostile := `{"turn":1,"messages":[{"id":1,"parent":2,"role":"user"},{"id":2,"parent":1,"role":"tool","parts":[{"type":"tool_result"}]}],"last":1,"answer":2,"whole":true}
nonsense
{"turn":-1,"last":99,"answer":98,"whole":true,"tools":[{}],"tool_set":7}
`
	if err := os.WriteFile(at("b"), []byte(hostile), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"sft", "atif", "outputs"} {
		text, report := export(t, Options{Dir: dir, Format: format})
		if strings.Contains(text, "You are.") || len(report.Unreadable) != 1 {
			t.Errorf("%s: %v: %s", format, report.Unreadable, text)
		}
	}
}
