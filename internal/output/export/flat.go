package export

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// jsonRows writes the format "jsonl". Each object has all columns in their order, with null for
// missing values.
type jsonRows struct{ w io.Writer }

func (j jsonRows) row(r row) error {
	var b strings.Builder
	b.WriteByte('{')
	for i, c := range Columns {
		name, err := json.Marshal(c.Name)
		if err != nil {
			return err
		}
		value, err := json.Marshal(c.Value(r))
		if err != nil {
			return fmt.Errorf("%s of %s: %w", c.Name, r.trial.Key, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	_, err := io.WriteString(j.w, untrusted.JSON(b.String()+"}\n"))
	return err
}

func (j jsonRows) end() (int, error) { return 0, nil }

// table writes the format "csv". Its first column is a number, so that no line begins with foreign
// text.
type table struct {
	w    *csv.Writer
	line []string
}

func newTable(w io.Writer) (*table, error) {
	t := &table{w: csv.NewWriter(w), line: make([]string, len(Columns))}
	t.w.UseCRLF = true // RFC 4180
	for i, c := range Columns {
		t.line[i] = c.Name
	}
	return t, t.w.Write(t.line)
}

func (t *table) row(r row) error {
	for i, c := range Columns {
		t.line[i] = Cell(c.Value(r))
	}
	return t.w.Write(t.line)
}

func (t *table) end() (int, error) {
	t.w.Flush()
	return 0, t.w.Error()
}

// Cell returns a value as the text of a cell in CSV, and "" for nil. Values are those of columns.
// Text that a spreadsheet would take for a formula gets an apostrophe in front. All text is one
// line without escape sequences. Source: OWASP, "CSV Injection".
func Cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		line := untrusted.Line(v) // without leading white space
		if strings.IndexAny(line, formula) == 0 {
			return "'" + line
		}
		return line
	}
	panic(fmt.Sprintf("no cell is a %T", value))
}

// formula has the characters that formulas begin with, also in full width, which spreadsheets
// accept, too.
const formula = "=+-@＝＋－＠"
