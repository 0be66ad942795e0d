package fake

import (
	"bufio"
	"bytes"
	"crypto/md5" //nolint:gosec // for the command md5sum
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// textCommands read and write.
var textCommands = map[string]func(*command) int{
	"cat": cat, "head": head, "tail": tail, "wc": wc, "tr": tr, "tee": tee, "seq": seq, "yes": yes, "base64": base64Command,
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
	last := -1
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
