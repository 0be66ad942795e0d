package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	apiKey   = "sk-ant-api03-Zx9_QmV2+/pLk=tail"
	quoted   = `a "b" 'c' <d> & \e`
	database = "postgres://user:p@ss word&<é>@db.example/x?y=1"
)

func TestString(t *testing.T) {
	long := strings.Repeat("a-long-key/", 12) // wraps twice in base64
	pem := "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA1234567890\nzz\n-----END KEY-----\n"
	r := New([]string{apiKey, database, long, pem, "12345", "sixsix", "  \n", quoted})
	std, raw, web := base64.StdEncoding, base64.RawURLEncoding, base64.URLEncoding
	inJSON := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	inXML := func(s string) string {
		var out strings.Builder
		xml.EscapeText(&out, []byte(s))
		return out.String()
	}

	for _, tc := range []struct{ name, in, want string }{
		{"text without secrets is unchanged", "hello, world", "hello, world"},
		{"a secret is masked in place", "key=" + apiKey + ";", "key=***;"},
		{"every occurrence is masked", apiKey + " and " + apiKey, "*** and ***"},
		{"adjacent secrets share a mask", apiKey + apiKey, "***"},
		{"values under six characters are no secrets", "12345", "12345"},
		{"six characters are a secret", "<sixsix>", "<***>"},
		{"a part of a secret stays", apiKey[:len(apiKey)-1], apiKey[:len(apiKey)-1]},
		{"base64, padded", std.EncodeToString([]byte(apiKey)), "***"},
		{"base64 for URLs, not padded", raw.EncodeToString([]byte(apiKey)), "***"},
		{"base64 in lines of 76 characters", wrap(std.EncodeToString([]byte(long)), 76, "\n") + "\n", "***\n"},
		{"base64 in lines of 64 characters with CRLF", wrap(web.EncodeToString([]byte(long)), 64, "\r\n"), "***"},
		{"wrapped base64 inside a JSON string", inJSON("out: " + wrap(std.EncodeToString([]byte(long)), 76, "\n")), `"out: ***"`},
		{"base64 interrupted by an empty line is not decoded", "c2l4\n\nc2l4", "c2l4\n\nc2l4"},
		{"a URL query", url.QueryEscape(database), "***"},
		{"a URL path", url.PathEscape(database), "***"},
		{"lower-case hex", strings.ToLower(url.QueryEscape("sixsix")) + "%2f" + "%73ixsi%78", "***%2f***"},
		{"only some characters are escaped, as other languages do", "postgres%3A//user%3Ap%40ss+word%26%3C%c3%a9%3e@db.example/x?y=1", "***"},
		{"a JSON string", inJSON(database), `"***"`},
		{"a JSON string of ASCII", `"postgres:\/\/user:p@ss word&<\u00e9>@db.example\/x?y=1"`, `"***"`},
		{"a secret of several lines", "key:\n" + pem + "end", "key:\n***\nend"},
		{"a secret of several lines in JSON", inJSON(pem), `"***\n"`},
		{"the long lines of such a secret, indented", "  MIIEowIBAAKCAQEA1234567890\n  zz\n", "  ***\n  zz\n"},
		{"broken escapes are plain text", `%4 %zz \u12 \ud800\x sixsix \ud83d`, `%4 %zz \u12 \ud800\x *** \ud83d`},
		{"HTML", html.EscapeString(database), "***"},
		{"HTML with named references", "postgres:&sol;&sol;user&colon;p&commat;ss word&amp;&lt;&eacute;&gt;@db.example/x?y&equals;1", "***"},
		{"HTML with numbered references", "p&#115;x postgres://user:p@ss word&#38;&#x3c;&#xE9;&#X3e;@db.example/x?y=1", "p&#115;x ***"},
		{"HTML, twice", html.EscapeString(html.EscapeString(database)), "***"},
		{"XML", inXML(database), "***"},
		{"XML in XML", inXML(inXML(database)), "***"},
		{"invalid references", "&; &amp &#; &#xzz; &nosuchname; &" + strings.Repeat("a", 100) + "; sixsix", "&; &amp &#; &#xzz; &nosuchname; &" + strings.Repeat("a", 100) + "; ***"},
		{"JSON, twice", inJSON(inJSON(pem)), `"\"***\\n\""`},
		{"JSON, three times", inJSON(inJSON(inJSON(quoted))), `"\"\\\"***\\\"\""`},
		{"JSON in HTML", html.EscapeString(inJSON(quoted)), "&#34;***&#34;"},
		{"HTML in JSON", inJSON(html.EscapeString(quoted)), `"***"`},
		{"XML in JSON", inJSON(inXML(quoted)), `"***"`},
		{"JSON in a URL", url.QueryEscape(inJSON(quoted)), "%22***%22"},
		{"a shell's quotes", `TOKEN='` + strings.ReplaceAll(quoted, "'", `'\''`) + "'", "TOKEN='***'"},
		{"a shell's other quotes", `TOKEN='` + strings.ReplaceAll(quoted, "'", `'"'"'`) + "'", "TOKEN='***'"},
		{"a shell's backslashes", `a\ \"b\"\ \'c\'\ \<d\>\ \&\ \\e`, "***"},
		{"a program's string", `'a \x22b\x22 \'c\' \x3cd> & \\e'`, "'***'"},
		{"hexadecimal", "x=" + hex.EncodeToString([]byte(apiKey)) + "0a", "x=***0a"},
		{"hexadecimal in capitals", strings.ToUpper(hex.EncodeToString([]byte(apiKey))), "***"},
		{"hexadecimal in the middle of a byte", "f" + hex.EncodeToString([]byte("sixsix")), "f***"},
		{"hexadecimal, spaced", fmt.Sprintf("% x.", apiKey), "***."},
		{"hexadecimal of an array", "{0x73, 0x69, 0x78, 0x73, 0x69, 0x78}", "{0x***}"},
		{"hexadecimal escapes", `\x73\x69\x78\x73\x69\x78`, "***"},
		{"hexadecimal of a dump", "7369 7873 6978", "***"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := r.String(tc.in); got != tc.want {
				t.Errorf("String(%q)\n = %q, want\n   %q", tc.in, got, tc.want)
			}
		})
	}
}

// Tools write secrets in many encodings, also nested.
func TestFormsThatToolsWrite(t *testing.T) {
	const secret = `pä"ss'w0rd/+&é=%41🎉x`
	r := New([]string{secret})
	inJSON := func(s string) string { b, _ := json.Marshal(s); return strings.Trim(string(b), `"`) }
	std := base64.StdEncoding.EncodeToString
	wide := func(order binary.AppendByteOrder) string {
		var out []byte
		for _, unit := range utf16.Encode([]rune(secret)) {
			out = order.AppendUint16(out, unit)
		}
		return string(out)
	}
	octal := func(format string) string {
		var out strings.Builder
		for _, c := range []byte(secret) {
			if c < utf8.RuneSelf && c != '\'' && c != '%' {
				out.WriteByte(c)
			} else {
				fmt.Fprintf(&out, format, c)
			}
		}
		return out.String()
	}
	runes := func(format string) string {
		var out strings.Builder
		for _, c := range secret {
			if c < utf8.RuneSelf {
				out.WriteRune(c)
			} else {
				fmt.Fprintf(&out, format, c)
			}
		}
		return out.String()
	}
	dump := func(first, sep, bytesSep, column, end string) string {
		var out strings.Builder
		for at := 0; at < len(secret); at += 16 {
			line := secret[at:min(len(secret), at+16)]
			fmt.Fprintf(&out, first+sep, at)
			for i := range len(line) {
				fmt.Fprintf(&out, "%02x", line[i])
				if i < len(line)-1 && (bytesSep == " " || i%2 == 1) {
					out.WriteString(" ")
				}
			}
			if column != "" {
				out.WriteString(column + strings.Map(func(r rune) rune {
					if r > '~' {
						return '.'
					}
					return r
				}, line) + end)
			}
			out.WriteString("\n")
		}
		return out.String()
	}
	for name, text := range map[string]string{
		"a URL twice":                     url.QueryEscape(url.QueryEscape(secret)),
		"a URL three times":               url.QueryEscape(url.QueryEscape(url.QueryEscape(secret))),
		"a URL in JSON":                   inJSON(url.QueryEscape(secret)),
		"HTML in a URL":                   url.QueryEscape(html.EscapeString(secret)),
		"base64 in a URL":                 url.QueryEscape(std([]byte(secret))),
		"base64 in JSON with slashes":     strings.ReplaceAll(std([]byte(secret)), "/", `\/`),
		"base64 in HTML":                  strings.ReplaceAll(strings.ReplaceAll(std([]byte(secret)), "+", "&#43;"), "=", "&#x3D;"),
		"base64 of base64":                std([]byte(std([]byte(secret)))),
		"base64 of JSON":                  std([]byte(inJSON(secret))),
		"base64 of a URL":                 std([]byte(url.QueryEscape(secret))),
		"octal escapes of a shell":        "$'" + octal(`\%03o`) + "'",
		"code points of JavaScript":       strings.ReplaceAll(runes(`\u{%x}`), `"`, `\"`),
		"code points of Python":           runes(`\U%08x`),
		"code points of Perl":             runes(`\x{%x}`),
		"a field of CSV":                  strings.ReplaceAll(secret, `"`, `""`),
		"a string of SQL":                 strings.ReplaceAll(secret, `'`, `''`),
		"a field of CSV in JSON":          inJSON(strings.ReplaceAll(secret, `"`, `""`)),
		"UTF-16 with the low byte first":  wide(binary.LittleEndian),
		"UTF-16 with the high byte first": wide(binary.BigEndian),
		"UTF-16 in base64":                std([]byte(wide(binary.LittleEndian))),
		"UTF-16 in hexadecimal":           hex.EncodeToString([]byte(wide(binary.BigEndian))),
		"lines of xxd":                    dump("%08x:", " ", "", "  ", ""),
		"lines of hexdump":                dump("%08x", "  ", " ", "  |", "|"),
		"lines of od":                     dump("%07o", " ", " ", "", ""),
		"lines of xxd in JSON":            inJSON(dump("%08x:", " ", "", "  ", "")),
	} {
		t.Run(name, func(t *testing.T) {
			whole := r.String("begin " + text + " end")
			if !strings.Contains(whole, Mask) || strings.Contains(whole, text) || len(whole) > len("begin 0000000000: $'"+Mask+"'  |ss'w0rd/+&..=%41....x|\n end")+4 {
				t.Errorf("%q\nbecomes %q", text, whole)
			}
			var out bytes.Buffer
			w := r.Writer(&out)
			for _, b := range []byte("begin " + text + " end") {
				w.Write([]byte{b})
			}
			if w.Close(); out.String() != whole {
				t.Errorf("byte by byte it becomes %q, and at once %q", out.String(), whole)
			}
		})
	}
}

// A dump has its bytes in lines, with or without an offset, and in words whose low byte may be the
// first (hexdump and od -x on most machines).
func TestDumpsOfWords(t *testing.T) {
	const secret = "Zk9+qP/w2-xy_LmN0==top-s3cret-A9"
	r := New([]string{secret})
	for _, tool := range []struct {
		name       string
		width      int
		offset     string // of a line; "": none
		before     string // each word
		after, end string // each but the last word; each line
	}{
		{"od -An -tx1", 1, "", " ", "", "\n"}, {"xxd -i", 1, "", "0x", ", ", ",\n  "}, {"hexdump", 2, "%07x", " ", "", "\n"},
		{"od -x", 2, "%07o", " ", "", "\n"}, {"od -An -x", 2, "", " ", "", "\n"}, {"od -tx4", 4, "%07o", " ", "", "\n"}, {"xxd -e", 4, "%08x:", " ", "", "\n"}, {"od -tx8", 8, "%07o", " ", "", "\n"},
	} {
		for before := range 9 {
			content := []byte(strings.Repeat("#", before) + secret + strings.Repeat("#", 16-before%16))
			var text strings.Builder
			for at := 0; at < len(content); at += tool.width {
				if at%16 == 0 && tool.offset != "" {
					fmt.Fprintf(&text, tool.offset, at)
				}
				word := slices.Clone(content[at : at+tool.width])
				slices.Reverse(word)
				fmt.Fprintf(&text, "%s%x", tool.before, word)
				if next := at + tool.width; next%16 == 0 || next == len(content) {
					text.WriteString(tool.end)
				} else {
					text.WriteString(tool.after)
				}
			}
			got := r.String(text.String())
			var out bytes.Buffer
			w := r.Writer(&out)
			for _, b := range []byte(text.String()) {
				w.Write([]byte{b})
			}
			if w.Close(); out.String() != got {
				t.Errorf("%s: byte by byte it becomes %q, and at once %q", tool.name, out.String(), got)
			}
			if !strings.Contains(got, Mask) || len(text.String())-len(got) < 2*(len(secret)-2*(tool.width-1)) {
				t.Errorf("%s, %d bytes before:\n%s\nbecomes\n%s", tool.name, before, text.String(), got)
			}
		}
	}
}

// The last line of a dump ends with text, which is a part of the secret.
func TestTheTextOfADumpIsHidden(t *testing.T) {
	const secret = "Zk9+qP/w2-xy_LmN0==top-s3cret-A9é"
	r := New([]string{secret, "another secret"})
	for _, tc := range []struct{ name, text, want string }{
		{"xxd", "00000000: 5a6b 392b 7150 2f77 322d 7879 5f4c 6d4e  Zk9+qP/w2-xy_LmN\n00000010: 303d 3d74 6f70 2d73 3363 7265 742d 4139  0==top-s3cret-A9\n00000020: c3a9 0a" +
			strings.Repeat(" ", 34) + "...\nmore", "00000000: *** 0a" + strings.Repeat(" ", 34) + "***\nmore"},
		{"hexdump -C of what begins otherwise", "00000000  41 41 41 41 41 41 41 41  5a 6b 39 2b 71 50 2f 77  |AAAAAAAAZk9+qP/w|\n00000010  32 2d 78 79 5f 4c 6d 4e  30 3d 3d 74 6f 70 2d 73  |2-xy_LmN0==top-s|\n" +
			"00000020  33 63 72 65 74 2d 41 39  c3 a9 41 41 41 41 41 41  |3cret-A9..AAAAAA|\n", "00000000  41 41 41 41 41 41 41 41  *** 41 41 41 41 41 41  |***|\n"},
		{"two secrets", "00000000: 616e 6f74 6865 7220 7365 6372 6574 0a0a  another secret..\n00000000: 616e 6f74 6865 7220 7365 6372 6574       another secret", "00000000: *** 0a0a  ***\n00000000: ***       ***"},
		{"no dump", "616e6f7468657220736563726574 is the secret  of a text that goes on\n", "*** is the secret  of a text that goes on\n"},
		{"the end of a line", "616e6f7468657220736563726574\n  next\n", "***\n  next\n"},
	} {
		got := r.String(tc.text)
		var out bytes.Buffer
		w := r.Writer(&out)
		for _, b := range []byte(tc.text) {
			w.Write([]byte{b})
		}
		if w.Close(); got != tc.want || out.String() != got {
			t.Errorf("%s: byte by byte it becomes\n%s\nat once\n%s\nwant\n%s", tc.name, out.String(), got, tc.want)
		}
	}
}

func wrap(s string, width int, lineBreak string) string {
	var lines []string
	for ; len(s) > width; s = s[width:] {
		lines = append(lines, s[:width])
	}
	return strings.Join(append(lines, s), lineBreak)
}

// In base64 of a longer text, at most one character of a secret remains at each end, which also
// encodes a neighbour.
func TestBase64InsideALongerText(t *testing.T) {
	r := New([]string{apiKey})
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for before := range 7 {
			for after := range 7 {
				head, tail := "user12:"[:before], ";more.\n"[:after]
				got := r.String(enc.EncodeToString([]byte(head + apiKey + tail)))
				left, right, masked := strings.Cut(got, Mask)
				if !masked || len(left) > (8*before+5)/6 || len(strings.TrimRight(right, "=")) > (8*after+5)/6+1 {
					t.Errorf("%d bytes before, %d after: %q", before, after, got)
				}
			}
		}
	}
}

func TestRedactorWithoutSecretsChangesNothing(t *testing.T) {
	for name, r := range map[string]*Redactor{"nil": nil, "none": New(nil), "only short ones": New([]string{"abc", ""})} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w := r.Writer(&out)
			if _, err := io.WriteString(w, "abc %41"); err != nil || out.String() != "abc %41" {
				t.Errorf("wrote %q, %v before Close", out.String(), err)
			}
			if err := w.Close(); err != nil || !r.Empty() || r.String("abc") != "abc" || string(r.Bytes([]byte("abc"))) != "abc" {
				t.Errorf("not a pass-through: %v", err)
			}
		})
	}
}

func TestBytesDoesNotChangeItsArgument(t *testing.T) {
	in := []byte("a sixsix b")
	if got := New([]string{"sixsix"}).Bytes(in); string(got) != "a *** b" || string(in) != "a sixsix b" {
		t.Errorf("Bytes = %q, argument now %q", got, in)
	}
}

func TestWriterFindsSecretsSplitAnywhere(t *testing.T) {
	r := New([]string{apiKey})
	for _, secret := range []string{apiKey, url.QueryEscape(apiKey), wrap(base64.StdEncoding.EncodeToString([]byte(apiKey)), 8, "\r\n"), fmt.Sprintf("% X", apiKey),
		strings.ReplaceAll(html.EscapeString(html.EscapeString(apiKey)), "+", "&#43;"), `sk-\\x61nt-api03-Zx9_QmV2+\\/pLk\\u003dtail`} {
		text := "begin " + secret + " end"
		for cut := range len(text) {
			var out bytes.Buffer
			w := r.Writer(&out)
			for _, piece := range []string{text[:cut], text[cut:]} {
				if n, err := io.WriteString(w, piece); n != len(piece) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
			if err := w.Close(); err != nil || out.String() != "begin *** end" {
				t.Errorf("cut at %d: %q, %v", cut, out.String(), err)
			}
		}
	}
}

func TestWriterHoldsBackOnlyPossibleSecrets(t *testing.T) {
	var out bytes.Buffer
	w := New([]string{"sixsix"}).Writer(&out)
	for _, step := range []struct{ write, seen string }{
		{"hello\n", "hello\n"},
		{"si", "hello\n"},
		{"ze\n", "hello\nsize\n"},
		{"sixsi", "hello\nsize\n"},
		{"x", "hello\nsize\n***"}, // its end may begin another one, which the mask covers
		{".", "hello\nsize\n***."},
		{"%7", "hello\nsize\n***."},
	} {
		if _, err := io.WriteString(w, step.write); err != nil || out.String() != step.seen {
			t.Errorf("after %q: %q, %v; want %q", step.write, out.String(), err, step.seen)
		}
	}
	if err := w.Close(); err != nil || !strings.HasSuffix(out.String(), "***.%7") {
		t.Errorf("after Close: %q, %v", out.String(), err)
	}
}

func TestWriterMemoryIsBounded(t *testing.T) {
	r := New([]string{"AAAAAAAAAA", "sixsix"})
	for name, piece := range map[string]string{
		"line breaks after the begin of base64": strings.Repeat("\n", 4096),
		"one endless secret":                    strings.Repeat("A", 4096),
		"its base64":                            strings.Repeat("QUFB", 1024),
		"backslashes":                           strings.Repeat(`\`, 4096),
	} {
		t.Run(name, func(t *testing.T) {
			w := r.Writer(io.Discard).(*writer)
			io.WriteString(w, "QUFB")
			for range 20 { // ten times what may be held back
				io.WriteString(w, piece)
			}
			if held := len(w.stream.buf) + len(w.stream.spans); held > 8192 {
				t.Errorf("%d bytes and spans are held back", held)
			}
		})
	}
}

type failing struct{ after int }

var errFull = errors.New("disk full")

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriterRepeatsTheFirstError(t *testing.T) {
	w := New([]string{"sixsix"}).Writer(&failing{after: 5})
	if _, err := io.WriteString(w, "12345"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := io.WriteString(w, "."); !errors.Is(err, errFull) {
			t.Errorf("Write = %v, want %v", err, errFull)
		}
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close = %v, want %v", err, errFull)
	}
}

// FuzzWriter checks that splitting a text does not change the result, and that no secret remains.
func FuzzWriter(f *testing.F) {
	f.Add("sixsix", "abcdefgh", "x sixsix %73ixsix c2l4c2l4 \\u0073ixsix", []byte{3, 1, 4})
	f.Add("aaaaaa", "aaaaaab", "aaaaaaaaaab\r\nYWFh\nYWFh", []byte{1})
	f.Add(apiKey, database, url.QueryEscape(apiKey)+"\\n", []byte{2, 7})
	f.Add("a<b>&'c\"", "\\\"\\\"\\n", "a&lt;b&amp;gt;&amp;&#39;c\\\"&quot; \\u0026lt; %5C%22 61 3C 62", []byte{1, 2})
	f.Add("a b c d", "\\\\\\\\\\\\", "a+b+c%20d \\\\\\\\\\\\", []byte{5, 1})
	f.Fuzz(func(t *testing.T, a, b, text string, cuts []byte) {
		r := New([]string{a, b})
		for _, text := range []string{text, text + a + b, a + text + url.QueryEscape(b) + base64.StdEncoding.EncodeToString([]byte(text+a))} {
			want := r.String(text)
			var out bytes.Buffer
			w := r.Writer(&out)
			rest := text
			for i := 0; len(rest) > 0; i++ {
				n := len(rest)
				if len(cuts) > 0 {
					n = min(n, 1+int(cuts[i%len(cuts)]))
				}
				io.WriteString(w, rest[:n])
				rest = rest[n:]
			}
			w.Close()
			if out.String() != want {
				t.Fatalf("secrets %q %q, text %q, cuts %v:\nin pieces %q\nat once   %q", a, b, text, cuts, out.String(), want)
			}
			for _, secret := range []string{a, b} {
				// A secret made of mask characters, or one that masking creates, may remain.
				if s := strings.TrimSpace(secret); len(parts(secret)) > 0 && !strings.Contains(s, "*") && strings.Contains(want, s) {
					t.Fatalf("%q is still in %q", s, want)
				}
			}
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	line := "2026-11-21T04:20:09Z INFO step=12 tool=bash args={\"cmd\": \"go test ./...\"} ok github.com/org/rollout-action 0.005s 100%\n"
	text := []byte(strings.Repeat(line, 1000))
	r := New([]string{apiKey, database, "ghp_0123456789abcdefghijklmnopqrstuvwxyz"})
	w := r.Writer(io.Discard)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w.Write(text)
	}
}

func TestIn(t *testing.T) {
	r := New([]string{"hunter2-c0rrect"})
	for text, want := range map[string]bool{
		"":                             false,
		"hunter2-c0rrec":               false,
		"hunter2-c0rrect":              true,
		"hunter2%2Dc0rrect":            true,
		"aHVudGVyMi1jMHJyZWN0":         true,
		"x" + "aHVudGVyMi1jMHJy\nZWN0": true,
		strings.Repeat("hunter2-c0", 5_000) + "hunter2-c0rrect": true,
		strings.Repeat("hunter2-c0", 5_000):                     false,
	} {
		for name, reader := range map[string]io.Reader{
			"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "with the end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			if got, err := r.In(reader); got != want || err != nil {
				t.Errorf("%s, %.40q: %v, %v, want %v", name, text, got, err, want)
			}
		}
	}
	if found, err := (*Redactor)(nil).In(iotest.ErrReader(errors.New("not read"))); found || err != nil {
		t.Errorf("without secrets: %v, %v", found, err)
	}
	if _, err := r.In(iotest.ErrReader(io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("with a failing reader, the error is %v", err)
	}
}

func BenchmarkString(b *testing.B) {
	r := New([]string{apiKey, database, "ghp_0123456789abcdefghijklmnopqrstuvwxyz"})
	for b.Loop() {
		r.String("a short line of a report")
	}
}
