package excerpt

// Middles keeps the beginning and the end of the text that is written to it: as much as Middle
// keeps with a size of Most bytes.
type Middles struct {
	Most int

	head, tail []byte // the tail has at most twice the needed size
	written    int
}

// WriteString adds a text.
func (m *Middles) WriteString(s string) {
	m.written += len(s)
	if room := m.Most - len(m.head); room > 0 { // all of a text that is not shortened
		n := min(room, len(s))
		m.head, s = append(m.head, s[:n]...), s[n:]
	}
	keep := m.Most / 2
	if len(s) > keep {
		m.tail, s = m.tail[:0], s[len(s)-keep:]
	}
	if m.tail = append(m.tail, s...); len(m.tail) > 2*keep {
		m.tail = append(m.tail[:0], m.tail[len(m.tail)-keep:]...)
	}
}

// Middle returns the result of the function Middle for the whole text written. size is at most
// Most.
func (m *Middles) Middle(size int) string {
	if m.written <= len(m.head) {
		return Middle(string(m.head), size)
	}
	end := size / 2
	tail := m.tail
	if missing := end - len(tail); missing > 0 {
		tail = append(m.head[len(m.head)-missing:len(m.head):len(m.head)], tail...)
	}
	return ends(string(m.head[:size-end]), m.written-size, string(tail[len(tail)-end:]))
}
