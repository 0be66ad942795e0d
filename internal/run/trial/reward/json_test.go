package reward

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
)

func TestRewardFiles(t *testing.T) {
	const secret = "sk-live-ABCdef0123456789"
	many := make([]string, maxRewards+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"r%d": 1`, i)
	}
	for _, tc := range []struct {
		name       string
		rules      task.Rules
		text, json string // "": no such file
		want       string // reward and rewards, or a part of the message
		note       string
	}{
		{"the reward named reward counts", strict, "", `{"style": 0.5, "reward": 1}`, "1 map[reward:1 style:0.5]", ""},
		{"one reward alone counts, whatever its name", strict, "", `{"correct": 0.25}`, "0.25 map[correct:0.25]", ""},
		{"of several the mean counts", strict, "", `{"a": 1, "b": 0, "c": 0.5}`, "0.5 map[a:1 b:0 c:0.5]", ""},
		{"the mean of huge rewards is finite", strict, "", `{"a": 1.7e308, "b": 1.7e308}`, "1.7e+308 map[a:1.7e+308 b:1.7e+308]", ""},
		{"also where they lie far apart", strict, "", `{"a": 1.7e308, "b": -1.7e308}`, "0 map[a:1.7e+308 b:-1.7e+308]", ""},
		{"reward.txt comes first", strict, "0.5", `{"reward": 1}`, "0.5 map[reward:1]", ""},
		{"reward.json comes first for Harbor", lenient, "0.5", `{"reward": 1}`, "1 map[reward:1]", ""},
		{"a reward.json that does not count may be broken", strict, "1", "{", "1 map[]", `reward.json holds "{"`},
		{"one that does may not", lenient, "1", "{", `/logs/verifier/reward.json holds "{"`, ""},
		{"a broken reward.txt is not replaced", strict, "nan", `{"reward": 1}`, `reward.txt holds "nan"`, ""},
		{"Harbor's truth values and texts", lenient, "", `{"a": true, "b": false, "c": " 0.5 "}`, "0.5 map[a:1 b:0 c:0.5]", ""},
		{"which are no numbers otherwise", strict, "", `{"a": true}`, `has for "a" "true", which is not a number`, ""},
		{"nor are texts", strict, "", `{"a": "1"}`, `has for "a"`, ""},
		{"Python's underscores", lenient, "1_0_0.5", "", "100.5 map[]", ""},
		{"not at the end", lenient, "1_", "", "not a number", ""},
		{"nan is refused for Harbor, too", lenient, "nan", "", "not a number", ""},
		{"and inf", lenient, "-inf", "", "not a number", ""},
		{"and in JSON", lenient, "", `{"reward": NaN}`, "no JSON object of numbers", ""},
		{"and in quotes", lenient, "", `{"reward": "Infinity"}`, "not a number", ""},
		{"and by size", lenient, "", `{"reward": 1e999}`, "out of range", ""},
		{"null", lenient, "", `{"reward": null}`, `has for "reward" "null"`, ""},
		{"an object in an object", lenient, "", `{"reward": {"a": 1}}`, "which is not a number", ""},
		{"a list", lenient, "", `[1]`, "no JSON object", ""},
		{"a number alone", lenient, "", `1`, "no JSON object", ""},
		{"null alone", lenient, "", `null`, "no JSON object", ""},
		{"an empty object", lenient, "", `{}`, "holds 0 rewards", ""},
		{"an empty file", lenient, "", " ", "no JSON object", ""},
		{"two values", lenient, "", `{"reward": 1} {"reward": 0}`, "no JSON object", ""},
		{"one name twice", lenient, "", `{"reward": 0, "reward": 1}`, "different names", ""},
		{"a name that is not UTF-8", lenient, "", "{\"a\xff\": 1}", "no JSON object", ""},
		{"too many", lenient, "", "{" + strings.Join(many, ",") + "}", "holds 101 rewards", ""},
		{"an empty name", lenient, "", `{"": 1}`, "empty or longer", ""},
		{"a long name", lenient, "", `{"` + strings.Repeat("x", 201) + `": 1}`, "empty or longer", ""},
		{"a file that is too large", lenient, "", `{"reward": 1` + strings.Repeat(" ", environment.MaxTap), "larger than 64 KiB", ""},
		{"an object that is whole within what is read", lenient, "", `{"reward": 1}` + strings.Repeat(" ", environment.MaxTap), "larger than 64 KiB", ""},
		{"one that does not count", strict, "1", `{"reward": 1}` + strings.Repeat(" ", environment.MaxTap), "1 map[]", "reward.json is larger than 64 KiB"},
		{"deep nesting", lenient, "", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "which is not a number", ""},
		{"a secret for a name", lenient, "", `{"` + secret + `": 1, "\u001b[31mb": 1}`, "1 map[***:1 b:1]", ""},
		{"a secret for a value", lenient, "", `{"a": "` + secret + `"}`, `holds "***"`, ""},
		{"nothing at all", lenient, "", "", "ended with 3 but left no file /logs/verifier/reward.txt (nor reward.json)", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var files Files
			if tc.text != "" {
				files.Text = caught(tc.text)
			}
			if tc.json != "" {
				files.JSON = caught(tc.json)
			}
			v, failed := files.Read(tc.rules, 3, redact.New([]string{secret}))
			got := fmt.Sprint(v.Reward, " ", v.All)
			if failed != nil {
				got = failed.Message
				if failed.Type != result.VerifierRewardInvalid && files != (Files{}) {
					t.Errorf("the type is %s", failed.Type)
				}
			}
			if failed == nil && got != tc.want || !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if strings.Contains(got, secret) || !strings.Contains(v.Note, tc.note) || (v.Note == "") != (tc.note == "") {
				t.Errorf("note %q, want %q; got %s", v.Note, tc.note, got)
			}
		})
	}
}
