package redact

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// stream finds secrets in a text that comes in pieces. Positions count from the beginning of the
// text.
type stream struct {
	scanners []scanner
	buf      []byte // text that take has not returned yet
	base     int    // position of buf[0]
	spans    []span // secrets; after scan: ascending, with text between them
	column   int    // the end of a secret in hexadecimal whose line may continue with the text of its bytes; 0: none
}

// span is a part of the text to replace with one mask.
type span struct {
	start, end int
	masked     bool // take has returned the mask and the text before start
}

// rounds lists the escapings that tools apply to text. Each may be applied to the result of
// another.
var rounds = []escaping{
	{readPercent, "%", func(_, c byte) bool { return isHexDigit(c) }},
	{readBackslash, `\`, nil},
	{readHTML, "&", func(_, c byte) bool { return isAlphanumeric(c) || c == '#' }},
	{readDoubled, `'"`, func(quote, c byte) bool { return c == quote }},
	{readShell, "'", func(_, c byte) bool { return c == '\\' || c == '"' }},
}

// outermost is the number of rounds that are also undone before others.
const outermost = 3

// maxRounds is the maximum number of times that the same escaping is undone in a row.
const maxRounds = 3

// way is a reading of a text, with the escaping that the text must contain for the reading to find
// more than another way.
type way struct {
	escaping
	needs escaping
	// pairs: a byte stands for itself, unless it is one of breaks, which may be left out.
	pairs bool
}

// breaks are the first bytes of the line breaks that readBase64 ignores.
const breaks = "\r\n\\"

// ways lists the readings in which secrets are searched for: the plain text, each round, each round
// within another one, and some rounds repeated more often.
var ways = func() []way {
	all := []way{{escaping: escaping{read: readPlain}, pairs: true}}
	for _, one := range rounds {
		all = append(all, way{escaping: one, needs: one})
	}
	for _, outer := range rounds[:outermost] {
		for _, inner := range rounds {
			all = append(all, way{escaping: within(outer, inner), needs: outer})
		}
	}
	for _, one := range rounds[:outermost-1] {
		deep := one
		for range maxRounds - 1 {
			deep = within(one, deep)
		}
		all = append(all, way{escaping: deep, needs: one})
	}
	return all
}()

// scanners returns the scanners that search a text for the secrets.
func (r *Redactor) scanners() []scanner {
	all := []scanner{
		newScanner(r.base64, way{escaping: escaping{read: readBase64}, pairs: true}), newScanner(r.hex, way{escaping: escaping{read: readHex}}), newScanner(r.wide, ways[0]),
	}
	all[1].dump = true
	for _, outer := range rounds[:outermost] {
		all = append(all, newScanner(r.base64, way{escaping: within(outer, escaping{readBase64, breaks, nil}), needs: outer}))
	}
	for _, w := range ways {
		all = append(all, newScanner(r.text, w))
	}
	return all
}

func newStream(r *Redactor) *stream {
	s := &stream{scanners: slices.Clone(r.begin)}
	size := 0
	for i := range s.scanners {
		size += s.scanners[i].ring
	}
	recent := make([]int, size)
	for i := range s.scanners {
		sc := &s.scanners[i]
		sc.recent, recent = recent[:sc.ring:sc.ring], recent[sc.ring:]
	}
	return s
}

// scan adds a piece of the text and returns the position up to which the text is decided: no secret
// that begins before it can still be completed. final means that no piece follows.
func (s *stream) scan(p []byte, final bool) (decided int) {
	s.buf = append(s.buf, p...)
	decided = s.base + len(s.buf)
	for i := range s.scanners {
		sc := &s.scanners[i]
		if sc.trie.empty() {
			continue
		}
		sc.scan(s, final)
		if !final {
			decided = min(decided, sc.pending())
		}
	}
	if s.column > 0 && !s.hideColumn(final) {
		decided = min(decided, s.column)
	} else {
		s.column = 0
	}
	s.join()
	return decided
}

// add records a secret. Those of one scanner come in the order of their ends.
func (s *stream) add(start, end int) {
	if n := len(s.spans); n > 0 && s.spans[n-1].start <= start && start <= s.spans[n-1].end {
		s.spans[n-1].end = max(s.spans[n-1].end, end)
		return
	}
	s.spans = append(s.spans, span{start: start, end: end})
}

// columnOfText matches the end of a line of a dump (xxd, hexdump -C): the bytes after a secret, and
// the text of the line's bytes, which it captures.
var columnOfText = regexp.MustCompile(`^(?: ?[0-9A-Fa-f]{2,16})* {2,64}\|?([^\n]{1,32}?)\|?(?:\r?\n|\\n|\z)`)

// hideColumn records the span of a secret in the text column of the last line of a dump. It reports
// whether the end of that line is known.
func (s *stream) hideColumn(final bool) (known bool) {
	line := s.buf[s.column-s.base:]
	line = line[:min(len(line), dumpLength)]
	if !final && len(line) < dumpLength && !hasBreak(line) {
		return false
	}
	if at := columnOfText.FindSubmatchIndex(line); len(at) > 3 && (at[1] < dumpLength || final) {
		s.add(s.column+at[2], s.column+at[3])
	}
	return true
}

// hasBreak reports whether text has a line break, also in the form of JSON strings.
func hasBreak(text []byte) bool {
	return bytes.IndexByte(text, '\n') >= 0 || bytes.Contains(text, []byte(`\n`))
}

// join merges spans that overlap or touch.
func (s *stream) join() {
	slices.SortFunc(s.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	var out []span
	for _, next := range s.spans {
		if n := len(out); n > 0 && next.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, next.end)
			out[n-1].masked = out[n-1].masked || next.masked
			continue
		}
		out = append(out, next)
	}
	s.spans = out
}

// take appends the text up to the position decided to out, without secrets, and drops it from the
// stream.
func (s *stream) take(out []byte, decided int) []byte {
	at := s.base
	var rest []span
	for _, sp := range s.spans {
		if sp.start >= decided && !sp.masked {
			rest = append(rest, sp)
			continue
		}
		if !sp.masked {
			out = append(out, s.buf[at-s.base:sp.start-s.base]...)
			out = append(out, Mask...)
		}
		at = min(sp.end, decided)
		// Keep a span that ends here: an adjacent one that follows belongs to it.
		if sp.end >= decided {
			rest = append(rest, span{start: decided, end: sp.end, masked: true})
		}
	}
	out = append(out, s.buf[at-s.base:decided-s.base]...)
	s.spans = rest
	s.buf = s.buf[:copy(s.buf, s.buf[decided-s.base:])]
	s.base = decided
	return out
}

// scanner matches one trie against one reading of a text.
type scanner struct {
	trie   *trie
	read   reading
	needs  escaping   // required in the text near a secret; none: always read
	starts *[256]bool // bytes that a pattern can begin with
	pairs  bool       // as in way
	dump   bool       // matches may be in a dump

	at       int   // position of the next byte to read
	escapeAt int   // no escape occurs between at and here
	node     int32 // the current node of the trie
	breaks   int   // line breaks since the last symbol
	recent   []int // ring: positions of the last symbols
	ring     int   // the size of recent, a power of two
	count    int   // symbols so far
}

func newScanner(t *trie, w way) scanner {
	sc := scanner{trie: t, starts: new([256]bool), read: w.read, needs: w.needs, pairs: w.pairs, escapeAt: -1}
	for b := range sc.starts {
		symbols, _ := w.read([]byte{byte(b)}, true)
		sc.starts[b] = len(symbols) > 0 && t.first[symbols[0]] != root
	}
	for _, escape := range []byte(w.escapes) {
		sc.starts[escape] = true
	}
	for sc.ring = 1; sc.ring < t.depth; {
		sc.ring *= 2
	}
	return sc
}

// scan reads the text in s.buf.
func (sc *scanner) scan(s *stream, final bool) {
	i := sc.at - s.base
	for i < len(s.buf) {
		if sc.node == root {
			if i = sc.skip(s, i); i == len(s.buf) {
				break
			}
		}
		symbols, size := sc.read(s.buf[i:], final)
		if size == 0 {
			break
		}
		if len(symbols) == 0 {
			sc.lineBreak()
		}
		for _, symbol := range symbols {
			sc.recent[sc.count&(len(sc.recent)-1)] = s.base + i
			sc.count++
			sc.breaks = 0
			sc.node = sc.trie.step(sc.node, symbol)
			if n := sc.trie.nodes[sc.node].longest; n > 0 {
				s.add(sc.start(n), s.base+i+size)
				if sc.dump {
					if s.column > 0 && hasBreak(s.buf[s.column-s.base:i]) {
						s.hideColumn(false) // of another line
					}
					s.column = s.base + i + size
				}
			}
			// If no pattern continues here, only a suffix can: hold nothing else back.
			if at := sc.trie.nodes[sc.node]; at.child == root && sc.node != root {
				sc.node = at.fail
			}
		}
		i += size
	}
	sc.at = s.base + i
}

// lineBreak ignores one line break. If it ignored more, a text of line breaks would be held back
// without limit.
func (sc *scanner) lineBreak() {
	if sc.breaks++; sc.breaks > 1 {
		sc.node = root
	}
}

// skip returns the index in s.buf, from i on, of the next byte that may begin a secret.
func (sc *scanner) skip(s *stream, i int) int {
	if sc.needs.escapes != "" {
		if sc.escapeAt < s.base+i {
			sc.escapeAt = s.base + i + sc.needs.find(s.buf[i:])
		}
		i = max(i, sc.escapeAt-sc.trie.depth-s.base)
	}
	for ; i < len(s.buf); i++ {
		if !sc.starts[s.buf[i]] {
			continue
		}
		if !sc.pairs || i+1 == len(s.buf) || sc.trie.begins(s.buf[i], s.buf[i+1]) || strings.IndexByte(breaks, s.buf[i+1]) >= 0 {
			break
		}
	}
	return i
}

// start returns the position of the n-th last symbol.
func (sc *scanner) start(n int32) int { return sc.recent[(sc.count-int(n))&(len(sc.recent)-1)] }

// pending returns the position from which the text may be the beginning of a secret.
func (sc *scanner) pending() int {
	if sc.node == root {
		return sc.at
	}
	return sc.start(sc.trie.nodes[sc.node].depth)
}
