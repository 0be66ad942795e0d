package fake

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// textCommands read and write.
var textCommands = map[string]func(*command) int{
	"cat": cat, "head": head, "tail": tail, "wc": wc, "grep": grep, "sed": sed, "tr": tr, "sort": sortLines, "uniq": uniq,
	"cut": cut, "tee": tee, "seq": seq, "yes": yes, "base64": base64Command,
	"sha256sum": checksum(sha256.New), "md5sum": checksum(md5.New),
}

func cat(c *command) int {
	if _, err := c.options("u"); err != nil {
		return c.usage("%v", err)
	}
	return c.each(c.args, func(_ string, r io.Reader) error { return c.copy(r) })
}

// oldCount turns head -5 into head -n 5.
func (c *command) oldCount() {
	if len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		if _, err := strconv.Atoi(c.args[0][1:]); err == nil {
			c.args = slices.Concat([]string{"-n", c.args[0][1:]}, c.args[1:])
		}
	}
}

func head(c *command) int {
	c.oldCount()
	flags, err := c.options("n:c:q", "lines=n", "bytes=c")
	if err != nil {
		return c.usage("%v", err)
	}
	if size := flags['c']; size != "" {
		n, err := parseSize(size)
		if err != nil {
			return c.usage("%v", err)
		}
		return c.each(c.args, func(_ string, r io.Reader) error { return c.copy(io.LimitReader(r, n)) })
	}
	count := 10
	if flags['n'] != "" {
		if count, err = strconv.Atoi(flags['n']); err != nil || count < 0 {
			return c.usage("invalid number %q", flags['n'])
		}
	}
	return c.each(c.args, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) bool {
			count--
			return count >= 0 && c.print("%s", line) && count > 0
		})
	})
}

// lines calls do with each line, its newline included, until do has enough.
func (c *command) lines(r io.Reader, do func(line string) bool) error {
	buf := bufio.NewReader(r)
	for {
		line, err := buf.ReadString('\n')
		if line != "" && !do(line) {
			return nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func tail(c *command) int {
	c.oldCount()
	flags, err := c.options("n:c:fq", "lines=n", "bytes=c")
	if err != nil {
		return c.usage("%v", err)
	}
	code := c.each(c.args, func(_ string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return c.copy(bytes.NewReader(lastPart(data, flags)))
	})
	if flags['f'] != "" {
		<-c.p.ctx.Done()
	}
	return code
}

// lastPart is what tail prints: the last 10 lines, or as -c and -n say, from the start with a plus.
func lastPart(data []byte, flags map[byte]string) []byte {
	if size, err := parseSize(flags['c']); err == nil {
		return data[max(0, int64(len(data))-size):]
	}
	count, err := strconv.Atoi(flags['n'])
	if err != nil {
		count = 10
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	from := len(lines) - count
	if strings.HasPrefix(flags['n'], "+") {
		from = count - 1
	}
	return bytes.Join(lines[min(max(0, from), len(lines)):], nil)
}

func wc(c *command) int {
	flags, err := c.options("lwcm")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.each(c.args, func(name string, r io.Reader) error {
		var lines, words, size int
		inWord := false
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		for {
			n, err := r.Read(*buf)
			size += n
			for _, b := range (*buf)[:n] {
				if b == '\n' {
					lines++
				}
				space := b == ' ' || b >= '\t' && b <= '\r'
				if !space && !inWord {
					words++
				}
				inWord = !space
			}
			if err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		var out []string
		for _, column := range []struct {
			flag byte
			n    int
		}{{'l', lines}, {'w', words}, {'c', size}} {
			if len(flags) == 0 || flags[column.flag] != "" {
				out = append(out, strconv.Itoa(column.n))
			}
		}
		if name != "-" {
			out = append(out, name)
		}
		c.print("%s\n", strings.Join(out, " "))
		return nil
	})
}

// basic turns a basic regular expression into an extended one, by swapping what is escaped.
func basic(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch ch := pattern[i]; {
		case ch == '\\' && i+1 < len(pattern) && strings.IndexByte("(){}|+?", pattern[i+1]) >= 0:
			i++
			b.WriteByte(pattern[i])
		case ch == '\\' && i+1 < len(pattern):
			b.WriteString(pattern[i : i+2])
			i++
		case strings.IndexByte("(){}|+?", ch) >= 0:
			b.WriteString(`\` + string(ch))
		default:
			b.WriteByte(ch)
		}
	}
	return b.String()
}

func grep(c *command) int {
	flags, err := c.options("qsvicoEFnwxhe:", "quiet=q", "count=c", "invert-match=v", "ignore-case=i")
	if err != nil {
		return c.usage("%v", err)
	}
	pattern, ok := flags['e']
	if !ok {
		if len(c.args) == 0 {
			return c.usage("missing pattern")
		}
		pattern, c.args = c.args[0], c.args[1:]
	}
	re, err := grepPattern(pattern, flags)
	if err != nil {
		return c.usage("%v", err)
	}
	if flags['s'] != "" {
		c.stderr = io.Discard
	}
	found := false
	code := c.each(c.args, func(name string, r io.Reader) error {
		number, count := 0, 0
		prefix := ""
		if len(c.args) > 1 && flags['h'] == "" {
			prefix = name + ":"
		}
		err := c.lines(r, func(line string) bool {
			number++
			text := strings.TrimSuffix(line, "\n")
			if re.MatchString(text) == (flags['v'] != "") {
				return true
			}
			found = true
			count++
			at := prefix
			if flags['n'] != "" {
				at += strconv.Itoa(number) + ":"
			}
			switch {
			case flags['q'] != "":
				return false
			case flags['c'] != "":
				return true
			case flags['o'] != "":
				return c.print("%s%s\n", at, strings.Join(re.FindAllString(text, -1), "\n"+at))
			}
			return c.print("%s%s\n", at, text)
		})
		if flags['c'] != "" && flags['q'] == "" {
			c.print("%s%d\n", prefix, count)
		}
		return err
	})
	switch {
	case found && (code == 0 || flags['q'] != ""):
		return 0
	case code != 0:
		return 2
	}
	return 1
}

func grepPattern(pattern string, flags map[byte]string) (*regexp.Regexp, error) {
	switch {
	case flags['F'] != "":
		pattern = regexp.QuoteMeta(pattern)
	case flags['E'] == "":
		pattern = basic(pattern)
	}
	if flags['w'] != "" {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if flags['x'] != "" {
		pattern = "^(?:" + pattern + ")$"
	}
	if flags['i'] != "" {
		pattern = "(?i)" + pattern
	}
	return regexp.Compile(pattern)
}

// sed knows the command s and nothing else, and the options -i, -E and -e.
func sed(c *command) int {
	flags, err := c.options("iEre:")
	if err != nil {
		return c.usage("%v", err)
	}
	script, ok := flags['e']
	if !ok {
		if len(c.args) == 0 {
			return c.usage("missing script")
		}
		script, c.args = c.args[0], c.args[1:]
	}
	substitute, err := parseSubstitution(script, flags['E'] != "" || flags['r'] != "")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.each(c.args, func(name string, r io.Reader) error {
		var changed strings.Builder
		err := c.lines(r, func(line string) bool {
			text, ended := strings.CutSuffix(line, "\n")
			text = substitute(text)
			if ended {
				text += "\n"
			}
			if flags['i'] != "" {
				changed.WriteString(text)
				return true
			}
			return c.print("%s", text)
		})
		if err == nil && flags['i'] != "" {
			err = c.m().writeFile(c.p, c.path(name), []byte(changed.String()), 0o644)
		}
		return err
	})
}

func parseSubstitution(script string, extended bool) (func(string) string, error) {
	if len(script) < 4 || script[0] != 's' {
		return nil, errors.New("only the command s is known")
	}
	parts := strings.Split(script[2:], script[1:2])
	if len(parts) != 3 {
		return nil, errors.New("want s/pattern/replacement/")
	}
	pattern := parts[0]
	if !extended {
		pattern = basic(pattern)
	}
	if strings.ContainsAny(parts[2], "iI") {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	// In Go's templates a dollar begins a group; in sed a backslash does, and & is all.
	template := regexp.MustCompile(`\\(\d)`).ReplaceAllString(strings.ReplaceAll(parts[1], "$", "$$"), "${$1}")
	template = regexp.MustCompile(`(^|[^\\])&`).ReplaceAllString(template, "${1}${0}")
	template = strings.ReplaceAll(template, "\\&", "&")
	all := strings.Contains(parts[2], "g")
	return func(line string) string {
		if all {
			return re.ReplaceAllString(line, template)
		}
		at := re.FindStringSubmatchIndex(line)
		if at == nil {
			return line
		}
		return line[:at[0]] + string(re.ExpandString(nil, template, line, at)) + line[at[1]:]
	}, nil
}

func tr(c *command) int {
	flags, err := c.options("ds")
	if err != nil || len(c.args) == 0 || len(c.args) == 1 && len(flags) == 0 {
		return c.usage("want two sets, or -d or -s and one (%v)", err)
	}
	from := byteSet(c.args[0])
	var to []byte
	if len(c.args) > 1 {
		to = byteSet(c.args[1])
	}
	var table [256]byte
	var member [256]bool
	for i := range table {
		table[i] = byte(i)
	}
	for i, b := range from {
		member[b] = true
		if len(to) > 0 {
			table[b] = to[min(i, len(to)-1)]
		}
	}
	var last int = -1
	return c.each(nil, func(_ string, r io.Reader) error {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		for {
			n, err := r.Read(*buf)
			out := (*buf)[:0]
			for _, b := range (*buf)[:n] {
				if flags['d'] != "" && member[b] || flags['s'] != "" && member[b] && int(table[b]) == last {
					continue
				}
				last = int(table[b])
				out = append(out, table[b])
			}
			if _, err := c.stdout.Write(out); err != nil {
				return errStdout
			}
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

// byteSet expands a set of tr: ranges, escapes and the common classes.
func byteSet(s string) []byte {
	s = strings.NewReplacer("[:upper:]", "A-Z", "[:lower:]", "a-z", "[:digit:]", "0-9", "[:alpha:]", "A-Za-z",
		"[:alnum:]", "A-Za-z0-9", "[:space:]", " \t\n\r\v\f", `\n`, "\n", `\t`, "\t", `\r`, "\r", `\0`, "\x00", `\\`, `\`).Replace(s)
	var set []byte
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i+1] == '-' && s[i] <= s[i+2] {
			for b := int(s[i]); b <= int(s[i+2]); b++ {
				set = append(set, byte(b))
			}
			i += 2
			continue
		}
		set = append(set, s[i])
	}
	return set
}

func sortLines(c *command) int {
	flags, err := c.options("nru", "numeric-sort=n", "reverse=r", "unique=u")
	if err != nil {
		return c.usage("%v", err)
	}
	var all []string
	code := c.each(c.args, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) bool { all = append(all, strings.TrimSuffix(line, "\n")); return true })
	})
	slices.SortStableFunc(all, func(a, b string) int {
		order := strings.Compare(a, b)
		if flags['n'] != "" {
			if x, y := leadingNumber(a), leadingNumber(b); x < y {
				order = -1
			} else if x > y {
				order = 1
			}
		}
		if flags['r'] != "" {
			return -order
		}
		return order
	})
	if flags['u'] != "" {
		all = slices.Compact(all)
	}
	for _, line := range all {
		c.print("%s\n", line)
	}
	return code
}

func leadingNumber(s string) float64 {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789.-", r) })
	if end >= 0 {
		s = s[:end]
	}
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

func uniq(c *command) int {
	flags, err := c.options("c")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.each(c.args, func(_ string, r io.Reader) error {
		last, count := "", 0
		flush := func() {
			switch {
			case count > 0 && flags['c'] != "":
				c.print("%7d %s\n", count, last)
			case count > 0:
				c.print("%s\n", last)
			}
		}
		err := c.lines(r, func(line string) bool {
			line = strings.TrimSuffix(line, "\n")
			if line != last {
				flush()
				last, count = line, 0
			}
			count++
			return true
		})
		flush()
		return err
	})
}

// cut knows single fields and characters: cut -d: -f1, cut -c1-5.
func cut(c *command) int {
	flags, err := c.options("d:f:c:")
	if err != nil {
		return c.usage("%v", err)
	}
	first, last, isRange := strings.Cut(flags['f']+flags['c'], "-")
	from, err := strconv.Atoi(first)
	to := from
	if isRange {
		to, err = strconv.Atoi(last)
	}
	if err != nil || from < 1 {
		return c.usage("want -f N, -c N or a range")
	}
	delimiter := flags['d']
	if delimiter == "" {
		delimiter = "\t"
	}
	return c.each(c.args, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) bool {
			line = strings.TrimSuffix(line, "\n")
			parts, joint := strings.Split(line, delimiter), delimiter
			if flags['c'] != "" {
				parts, joint = strings.Split(line, ""), ""
			} else if len(parts) == 1 {
				return c.print("%s\n", line)
			}
			return c.print("%s\n", strings.Join(parts[min(from-1, len(parts)):min(to, len(parts))], joint))
		})
	})
}

func tee(c *command) int {
	flags, err := c.options("a", "append=a")
	if err != nil {
		return c.usage("%v", err)
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if flags['a'] != "" {
		mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	outs := []io.Writer{c.stdout}
	code := 0
	for _, name := range c.args {
		f, err := c.m().open(c.p, c.path(name), mode, 0o644)
		if err != nil {
			code = c.fail(name, err)
			continue
		}
		outs = append(outs, f)
	}
	c.stdout = io.MultiWriter(outs...)
	if err := c.copy(c.input()); err != nil {
		return 1
	}
	return code
}

func seq(c *command) int {
	first, step, last := 1, 1, 0
	targets := map[int][]*int{1: {&last}, 2: {&first, &last}, 3: {&first, &step, &last}}[len(c.args)]
	for i, target := range targets {
		n, err := strconv.Atoi(c.args[i])
		if err != nil {
			return c.usage("invalid number %q", c.args[i])
		}
		*target = n
	}
	if targets == nil || step == 0 {
		return c.usage("want one to three numbers")
	}
	out := bufio.NewWriter(c.stdout)
	for i := first; step > 0 && i <= last || step < 0 && i >= last; i += step {
		if _, err := out.WriteString(strconv.Itoa(i) + "\n"); err != nil {
			return 1
		}
	}
	if out.Flush() != nil {
		return 1
	}
	return 0
}

func yes(c *command) int {
	text := "y"
	if len(c.args) > 0 {
		text = strings.Join(c.args, " ")
	}
	chunk := strings.Repeat(text+"\n", 1+4096/(len(text)+1))
	for c.print("%s", chunk) {
	}
	return 141
}

func base64Command(c *command) int {
	flags, err := c.options("dw:", "decode=d", "wrap=w")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.each(c.args, func(_ string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if flags['d'] != "" {
			data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(data)), ""))
			c.print("%s", data)
			return err
		}
		text := base64.StdEncoding.EncodeToString(data)
		for width := 76; flags['w'] != "0" && len(text) > width; text = text[width:] {
			c.print("%s\n", text[:width])
		}
		c.print("%s", text)
		if flags['w'] != "0" {
			c.print("\n")
		}
		return nil
	})
}

func checksum(newHash func() hash.Hash) func(c *command) int {
	return func(c *command) int {
		return c.each(c.args, func(name string, r io.Reader) error {
			h := newHash()
			if _, err := io.Copy(h, r); err != nil {
				return err
			}
			c.print("%x  %s\n", h.Sum(nil), name)
			return nil
		})
	}
}

// randomText is of letters and digits.
func randomText(n int) string {
	data := make([]byte, n)
	_, _ = devices[[2]int{1, 9}](data)
	for i, b := range data {
		data[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[int(b)%36]
	}
	return string(data[:min(n, utf8.RuneCount(data))])
}
