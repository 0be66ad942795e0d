package untrusted

import (
	"encoding/json"
	"testing"
)

func TestJSON(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":       {`{"a":"b c"}` + "\n", `{"a":"b c"}` + "\n"},
		"letters":     {`{"a":"ä日"}`, `{"a":"ä日"}`},
		"a command":   {`{"a":"##[add-mask]x"}`, `{"a":"#\u0023[add-mask]x"}`},
		"bidi":        {"{\"a\":\"x\u202ey\"}", `{"a":"x\u202ey"}`},
		"a tag":       {"{\"a\":\"\U000E0041\"}", `{"a":"\udb40\udc41"}`},
		"DEL and C1":  {"{\"a\":\"\x7f\u009b\"}", `{"a":"\u007f\u009b"}`},
		"line breaks": {"{\n \"a\": \"\u200b\"\n}\n", "{\n \"a\": \"\\u200b\"\n}\n"},
	} {
		got := JSON(c.text)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		var a, b any
		if json.Unmarshal([]byte(c.text), &a) != nil || json.Unmarshal([]byte(got), &b) != nil || a.(map[string]any)["a"] != b.(map[string]any)["a"] {
			t.Errorf("%s: %q does not mean the same as %q", name, got, c.text)
		}
	}
}
