package foreign

import (
	"strings"
	"testing"
)

func TestFilesOfOtherTools(t *testing.T) {
	for _, tc := range []struct{ name, head, want string }{
		{"data/swe.jsonl", `{"repo": "a/b", "instance_id": "a__b-1", "base_commit": "0", "FAIL_TO_PASS": "[]"}` + "\n", "instances of SWE-bench"},
		{"verified.json", "[\n  {\n    \"instance_id\": \"a__b-1\",\n    \"problem_statement\": \"x\"\n  }\n]\n", "instances of SWE-bench"},
		{"preds.jsonl", `{"instance_id": "a__b-1", "model_patch": "diff", "model_name_or_path": "m"}`, "predictions for SWE-bench"},
		{"promptfooconfig.yaml", "# comment\ndescription: x\nprompts:\n  - file://p.txt\nproviders: [openai:gpt-5]\ntests: []\n", "promptfoo"},
		{"a.json", "{\n  \"prompts\": [],\n  \"providers\": []\n}\n", "promptfoo"},
		{"theory.py", "from inspect_ai import Task, task\n\n@task\ndef theory(): ...\n", "Inspect"},
		{`win\env.py`, "import verifiers as vf\n\ndef load_environment(): ...\n", "verifiers"},
		{"test_bot.py", "import pytest\nfrom deepeval import assert_test\n", "DeepEval"},
		{"job.yaml", "name: x\nagents: [{name: oracle}]\ntasks: [tasks/*]\n", ""},
		{"job.yaml", "models: {m: {providers: 1}}\nagents:\n  - name: a\n    env: {prompts: x}\n", ""},
		{"notes.jsonl", `{"instance_id": 1}`, ""},
		{"main.py", "# inspect_ai is not used\nimport os\n", ""},
		{"", "", ""},
	} {
		of, ok := File(tc.name, []byte(tc.head))
		if ok != (tc.want != "") || !strings.Contains(of.Is, tc.want) || ok && of.WayOut == "" {
			t.Errorf("%s is %t, %+v, want %q", tc.name, ok, of, tc.want)
		}
	}
}
