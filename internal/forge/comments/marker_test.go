package comments

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMarkersOfHostileNames(t *testing.T) {
	safe := regexp.MustCompile(`^<!-- rollout-comment job="[A-Za-z0-9%+_.~-]*" valid-at="[0-9TZ:.-]+" run="[0-9]+" attempt="[0-9]+" -->$`)
	for _, job := range []string{
		"nightly", "2026-11-21__12-00-00", `-->`, `--!>`, "a--b---c----", `" valid-at="9999`, "<script>", "line\nbreak\r", "`|@everyone",
		"naïve 日本語 \u202e", "%2D%2D", "+", "&gt;", "\x00\xff", strings.Repeat("-", 200), "rollout-comment", "]]>",
	} {
		m := marker{job: job, stamp: stamp{start, 12, 3}}
		line := m.String()
		if !safe.MatchString(line) || strings.Contains(strings.TrimSuffix(strings.TrimPrefix(line, "<!--"), "-->"), "--") {
			t.Errorf("the marker of %q is %s", job, line)
		}
		got, body, ok := parseMarker(line + "\nbody\n")
		if !ok || got != m || body != "body\n" {
			t.Errorf("the marker of %q came back as %+v, %q, %v", job, got, body, ok)
		}
	}
}

func TestParseMarker(t *testing.T) {
	line := marker{job: "a", stamp: stamp{start, 12, 3}}.String()
	for _, tc := range []struct {
		name, text, body string
		ok               bool
		stamp            stamp
	}{
		{"whole", line + "\ntext", "text", true, stamp{start, 12, 3}},
		{"with other line breaks", line + "\r\none\r\ntwo", "one\ntwo", true, stamp{start, 12, 3}},
		{"alone", line, "", true, stamp{start, 12, 3}},
		{"not at the beginning", "text\n" + line, "", false, stamp{}},
		{"indented", " " + line, "", false, stamp{}},
		{"quoted", "> " + line, "", false, stamp{}},
		{"another action's", "<!-- sticky a -->\ntext", "", false, stamp{}},
		{"text after the marker", line + " text", "", false, stamp{}},
		{"an invalid time", strings.Replace(line, "2126", "21260", 1) + "\ntext", "text", true, stamp{}},
		{"an invalid name", strings.Replace(line, `"a"`, `"%zz"`, 1), "", false, stamp{}},
		{"a run that is too large for a number", strings.Replace(line, `"12"`, `"9999999999999999999"`, 1) + "\n", "", true,
			stamp{start, 1<<63 - 1, 3}},
		{"empty", "", "", false, stamp{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, body, ok := parseMarker(tc.text)
			if ok != tc.ok || body != tc.body || m.stamp != tc.stamp {
				t.Errorf("got %+v, %q, %v", m, body, ok)
			}
		})
	}
}

func FuzzMarker(f *testing.F) {
	f.Add("nightly", int64(1), 2, int64(3))
	f.Add("--><b>", int64(0), 0, int64(-1))
	f.Fuzz(func(t *testing.T, job string, run int64, attempt int, at int64) {
		m := marker{job: job, stamp: stamp{time.Unix(at%(1<<33), 5).UTC(), run & (1<<62 - 1), attempt & (1<<20 - 1)}}
		got, _, ok := parseMarker(m.String() + "\n")
		if !ok || got.job != m.job || got.stamp.compare(m.stamp) != 0 {
			t.Errorf("%+v came back as %+v, %v", m, got, ok)
		}
	})
}
