package reward

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
)

var (
	strict  = (&task.Task{Format: task.FormatRollout}).Rules()
	lenient = (&task.Task{Format: task.FormatHarbor}).Rules()
)

// caught returns a file of the environment in the form in which copying the logs creates it.
func caught(text string) File {
	file := File{Size: int64(len(text))}
	_, _ = file.Write([]byte(text[:min(len(text), environment.MaxTap)]))
	return file
}

func TestRewards(t *testing.T) {
	const secret = "sk-live-ABCdef0123456789"
	for _, tc := range []struct {
		name, text string
		want       float64
		wrong      string // in the message; "" is valid
	}{
		{"one", "1", 1, ""},
		{"zero", "0\n", 0, ""},
		{"a fraction", " 0.5\r\n\n", 0.5, ""},
		{"a negative number", "-2.25", -2.25, ""},
		{"a plus sign", "+3", 3, ""},
		{"no digit before the point", ".5", 0.5, ""},
		{"no digit after the point", "5.", 5, ""},
		{"an exponent", "1e-3", 0.001, ""},
		{"another exponent", "2.5E+2", 250, ""},
		{"so small that it is nothing", "1e-400", 0, ""},
		{"an empty file", "", 0, "is empty"},
		{"white space alone", " \n\t", 0, "is empty"},
		{"nan", "nan", 0, `"nan", which is not a number`},
		{"NaN", "NaN", 0, "not a number"},
		{"inf", "inf", 0, "not a number"},
		{"minus infinity", "-Infinity", 0, "not a number"},
		{"beyond all numbers", "1e999", 0, `"1e999", which is out of range`},
		{"two numbers", "0.5 1", 0, "not a number"},
		{"two lines", "1\n0\n", 0, "not a number"},
		{"a hexadecimal number", "0x10", 0, "not a number"},
		{"a hexadecimal fraction", "0x1p-2", 0, "not a number"},
		{"a number with underscores", "1_000", 0, "not a number"},
		{"a decimal comma", "0,5", 0, "not a number"},
		{"per cent", "50%", 0, "not a number"},
		{"words", "PASS", 0, "not a number"},
		{"JSON", `{"reward": 1}`, 0, "not a number"},
		{"a NUL byte", "1\x00", 0, `"1\x00"`},
		{"another script's digits", "١", 0, `"\u0661"`},
		{"a sign alone", "-", 0, "not a number"},
		{"a point alone", ".", 0, "not a number"},
		{"a long text, which is cut", strings.Repeat("x", 9_995) + "wrong", 0, `"` + strings.Repeat("x", 30) + `" […9960 bytes…] "xxxxxwrong"`},
		{"escape sequences, which are not shown", "\x1b[31m1", 0, `"\x1b[31m1"`},
		{"a text of the largest size", "1" + strings.Repeat(" ", environment.MaxTap-1), 1, ""},
		{"one byte more", "1" + strings.Repeat(" ", environment.MaxTap), 0, "is larger than 64 KiB"},
		{"another number after what is read", "1" + strings.Repeat("\n", environment.MaxTap) + "0", 0, "is larger than 64 KiB"},
		{"a secret in the place where the text is cut", strings.Repeat("x", 30) + secret, 0, `"` + strings.Repeat("x", 30) + `***"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := Files{Text: caught(tc.text)}
			got, failed := files.Read(strict, 0, redact.New([]string{secret}))
			switch {
			case tc.wrong == "" && failed != nil:
				t.Errorf("refused: %s", failed.Message)
			case tc.wrong == "" && got.Reward != tc.want:
				t.Errorf("%g, want %g", got.Reward, tc.want)
			case tc.wrong != "" && failed == nil:
				t.Errorf("%g was accepted", got.Reward)
			case tc.wrong != "" && (failed.Type != result.VerifierRewardInvalid || !strings.Contains(failed.Message, tc.wrong)):
				t.Errorf("%s: %s, want %s", failed.Type, failed.Message, tc.wrong)
			}
		})
	}
}
