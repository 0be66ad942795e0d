package dockerfile

import (
	"fmt"
	"strconv"
	"strings"
)

// modeChange is a parsed --chmod. The zero value changes nothing.
type modeChange struct {
	absolute bool
	bits     int64
	clauses  []modeClause
}

// modeClause is one clause of "u=rw,go+rX".
type modeClause struct {
	who   int64 // permission bits of the selected classes
	op    byte
	perms string
}

// parseMode parses --chmod: octal, or symbolic as for chmod but without copies such as g=u. The
// umask has no effect.
func parseMode(text string) (modeChange, error) {
	if text == "" {
		return modeChange{}, nil
	}
	if bits, err := strconv.ParseUint(text, 8, 32); err == nil && bits <= 0o7777 {
		return modeChange{absolute: true, bits: int64(bits)}, nil
	}
	var change modeChange
	for clause := range strings.SplitSeq(text, ",") {
		parsed, ok := parseClause(clause)
		if !ok {
			return modeChange{}, fmt.Errorf("--chmod=%s: want an octal number up to 7777, or letters like u=rwX,go=rX", text)
		}
		change.clauses = append(change.clauses, parsed...)
	}
	return change, nil
}

// parseClause parses a clause: who, and then any number of operations.
func parseClause(text string) ([]modeClause, bool) {
	ops := strings.IndexAny(text, "+-=")
	if ops < 0 {
		return nil, false
	}
	var who int64
	for _, c := range text[:ops] {
		switch c {
		case 'u':
			who |= 0o4700
		case 'g':
			who |= 0o2070
		case 'o':
			who |= 0o1007
		case 'a':
			who |= 0o7777
		default:
			return nil, false
		}
	}
	if who == 0 {
		who = 0o7777
	}
	var clauses []modeClause
	for rest := text[ops:]; rest != ""; {
		op := rest[0]
		end := strings.IndexAny(rest[1:], "+-=")
		if end < 0 {
			end = len(rest) - 1
		}
		perms := rest[1 : 1+end]
		if strings.Trim(perms, "rwxXst") != "" {
			return nil, false
		}
		clauses = append(clauses, modeClause{who: who, op: op, perms: perms})
		rest = rest[1+end:]
	}
	return clauses, true
}

// to returns the new mode of a file or directory.
func (c modeChange) to(mode int64, dir bool) int64 {
	mode &= 0o7777
	if c.absolute {
		return c.bits
	}
	for _, clause := range c.clauses {
		bits := clause.mask(mode, dir)
		switch clause.op {
		case '+':
			mode |= bits
		case '-':
			mode &^= bits
		case '=':
			mode = mode&^clause.who | bits
		}
	}
	return mode
}

// mask returns the bits that a clause names.
func (c modeClause) mask(mode int64, dir bool) int64 {
	var bits int64
	for _, p := range c.perms {
		switch p {
		case 'r':
			bits |= 0o444
		case 'w':
			bits |= 0o222
		case 'x':
			bits |= 0o111
		case 'X':
			if dir || mode&0o111 != 0 {
				bits |= 0o111
			}
		case 's':
			bits |= 0o6000
		case 't':
			bits |= 0o1000
		}
	}
	return bits & c.who
}
