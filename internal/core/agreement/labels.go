package agreement

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/excerpt"
)

// MaxLabels bounds the size of a file of labels, in bytes.
const MaxLabels = 16 << 20

// maxProblems bounds the problems reported about one file.
const maxProblems = 20

// Subject is a judge, or one of its criteria as judge.criterion, that a label can be about.
type Subject struct {
	Name    string
	Choices []Choice // of a criterion, from the worst to the best; empty: any number
	Open    bool     // there may be other choices: a label may be any number
}

// Choice is a word of a scale and its value, from 0 to 1.
type Choice struct {
	Word  string  `json:"word"`
	Value float64 `json:"value"`
}

// Label is a person's rating of a trial.
type Label struct {
	Trial   result.Key
	Subject string
	Rater   string // "" if the file has no such column
	Value   float64
	Line    int
}

// The columns that are not subjects. Of these, directory and note are not read.
const (
	taskColumn    = "task"
	datasetColumn = "dataset"
	agentColumn   = "agent"
	attemptColumn = "attempt"
	raterColumn   = "rater"
	judgeColumn   = "judge"
	labelColumn   = "label"
	filesColumn   = "directory"
	noteColumn    = "note"
)

var fixed = []string{taskColumn, datasetColumn, agentColumn, attemptColumn, raterColumn, judgeColumn, labelColumn, filesColumn, noteColumn}

// reader reads a file of labels.
type reader struct {
	file     string
	csv      *csv.Reader
	comma    bool // numbers may have a decimal comma
	keys     map[string][]result.Key
	subjects []Subject
	columns  map[string]int // of the fixed ones
	about    map[int]Subject
	seen     map[string]int // the lines of labels
	labels   []Label
	problems diag.List
}

// ReadLabels reads a file of labels: a header, and a line for each trial, with a column for each
// judge or criterion, or with the columns judge and label. It detects commas, semicolons and tabs.
// Empty labels are left out. If there are problems, it returns no labels.
func ReadLabels(file string, text []byte, keys []result.Key, subjects []Subject) ([]Label, diag.List) {
	r := &reader{file: file, subjects: subjects, keys: map[string][]result.Key{}, columns: map[string]int{}, about: map[int]Subject{}, seen: map[string]int{}}
	for _, k := range keys {
		for _, name := range []string{k.Task, k.Dataset + "/" + k.Task, k.String()} {
			r.keys[name] = append(r.keys[name], k)
		}
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		r.add(0, 0, "save it as CSV UTF-8", "the file is not text in UTF-8")
		return nil, r.problems
	}
	if bytes.IndexByte(text, '\n') < 0 { // "CSV (Macintosh)"
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	}
	r.csv = csv.NewReader(bytes.NewReader(text))
	r.csv.FieldsPerRecord = -1
	if m := separatorLine.FindSubmatch(text); m != nil {
		r.csv.Comma, _ = utf8.DecodeRune(m[1])
		_, _ = r.csv.Read() // the line
	} else {
		r.csv.Comma = separator(text)
	}
	r.comma = r.csv.Comma != ','
	r.csv.TrimLeadingSpace = r.csv.Comma != '\t' // a tab is space, and empty fields would be trimmed, too
	r.read()
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return r.labels, nil
}

// separatorLine matches a first line that tells spreadsheets the separator of columns.
var separatorLine = regexp.MustCompile(`^"?[sS][eE][pP]=([,;\t|])"?\r?\n`)

// separator returns the separator of the columns in the first line.
func separator(text []byte) rune {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	best, most := ',', 0
	for _, r := range []rune{',', ';', '\t'} {
		if n := bytes.Count(line, []byte(string(r))); n > most {
			best, most = r, n
		}
	}
	return best
}

func (r *reader) add(line, column int, hint, format string, args ...any) {
	switch {
	case len(r.problems) == maxProblems:
		r.problems = append(r.problems, diag.Diagnostic{File: r.file, Message: "there are more problems", Hint: "solve these first"})
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, diag.Diagnostic{File: r.file, Line: line, Column: column, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
}

// at reports a problem of a field of the line that was read last.
func (r *reader) at(field int, hint, format string, args ...any) {
	line, column := r.csv.FieldPos(field)
	r.add(line, column, hint, format, args...)
}

// shown quotes and shortens text of the file for messages.
func shown(text string) string { return strconv.Quote(excerpt.Line(text, 60)) }

func (r *reader) read() {
	header := true
	for {
		fields, err := r.csv.Read()
		var wrong *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			if header {
				r.add(0, 0, "the first line names the columns: task, attempt, and judges", "the file is empty")
			}
			return
		case errors.As(err, &wrong):
			r.add(wrong.Line, wrong.Column, `write " as "" inside of quotes, and end them`, "the line is not CSV: %v", wrong.Err)
			return
		case err != nil:
			r.add(0, 0, "", "%v", err)
			return
		}
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
			if f := fields[i]; len(f) > 1 && f[0] == '\'' && strings.ContainsRune(formula, rune(f[1])) {
				fields[i] = f[1:]
			}
		}
		switch {
		case !slices.ContainsFunc(fields, func(f string) bool { return f != "" }):
		case header:
			if header = false; !r.header(fields) {
				return
			}
		default:
			r.line(fields)
		}
	}
}

// header reads the names of the columns, and reports whether they are enough to read the lines.
func (r *reader) header(fields []string) bool {
	first := map[string]int{}
	for i, name := range fields {
		if name == "" {
			continue
		}
		low := strings.ToLower(name)
		if other, twice := first[low]; twice {
			r.at(i, "remove one of them", "the columns %d and %d have the same name: %s", other+1, i+1, shown(name))
			continue
		}
		first[low] = i
		if slices.Contains(fixed, low) {
			r.columns[low] = i
			continue
		}
		if s, ok := r.subject(name); ok {
			r.about[i] = s
			continue
		}
		r.at(i, r.hint(name, fixed), "no judge and no criterion has the name %s", shown(name))
	}
	_, task := r.columns[taskColumn]
	_, judge := r.columns[judgeColumn]
	_, label := r.columns[labelColumn]
	switch {
	case !task:
		r.at(0, "add the column task", "no column has the names of the tasks")
	case judge != label:
		r.at(0, "give both, or a column for each judge", "one of the columns judge and label is there without the other")
	case !label && len(r.about) == 0 && len(r.problems) == 0:
		r.at(0, "add a column with the name of a judge or criterion: "+r.names(), "no column has labels")
	}
	return len(r.problems) == 0
}

func (r *reader) names() string {
	var names []string
	for _, s := range r.subjects {
		names = append(names, s.Name)
	}
	return excerpt.Line(strings.Join(names, ", "), 300)
}

// hint lists the known names for an error about an unknown one.
func (r *reader) hint(name string, others []string) string {
	names := slices.Clone(others)
	for _, s := range r.subjects {
		names = append(names, s.Name)
	}
	return cmp.Or(diag.DidYouMean(name, names), "there are: "+r.names())
}

// subject returns the subject with a name. The name of a criterion may stand without its judge if
// only one judge has that criterion.
func (r *reader) subject(name string) (Subject, bool) {
	var found []Subject
	for _, s := range r.subjects {
		if strings.EqualFold(s.Name, name) {
			return s, true
		}
		if _, criterion, ok := strings.Cut(s.Name, "."); ok && strings.EqualFold(criterion, name) {
			found = append(found, s)
		}
	}
	if len(found) == 1 {
		return found[0], true
	}
	return Subject{}, false
}

func (r *reader) line(fields []string) {
	if n := r.csvColumns(); len(fields) < n {
		r.at(0, "write a separator for each column, also after an empty one", "the line has %d columns and the header %d", len(fields), n)
		return
	}
	get := func(column string) (string, int) {
		if i, ok := r.columns[column]; ok && i < len(fields) {
			return fields[i], i
		}
		return "", 0
	}
	labelled := func(i int) bool { return i < len(fields) && fields[i] != "" }
	key, known := result.Key{}, false
	trial := func() bool {
		if !known {
			key, known = r.trial(get)
		}
		return known
	}
	rater, _ := get(raterColumn)
	if label, at := get(labelColumn); label != "" {
		name, where := get(judgeColumn)
		s, ok := r.subject(name)
		switch {
		case !ok:
			r.at(where, r.hint(name, nil), "no judge and no criterion has the name %s", shown(name))
		case !trial():
			return
		default:
			r.label(key, s, rater, label, at)
		}
	}
	for i := range fields {
		s, ok := r.about[i]
		switch {
		case !labelled(i):
		case i >= r.csvColumns():
			r.at(i, "quote text that has the separator in it", "the line has more columns than the header")
			return
		case ok && !trial():
			return
		case ok:
			r.label(key, s, rater, fields[i], i)
		}
	}
}

// csvColumns returns the number of columns that the header has a name for.
func (r *reader) csvColumns() int {
	n := 0
	for _, i := range r.columns {
		n = max(n, i+1)
	}
	for i := range r.about {
		n = max(n, i+1)
	}
	return n
}

// trial returns the trial that a line is about.
func (r *reader) trial(get func(string) (string, int)) (result.Key, bool) {
	name, at := get(taskColumn)
	if name == "" {
		r.at(at, "write the name of the task", "the line has a label and no task")
		return result.Key{}, false
	}
	all := r.keys[name]
	if len(all) == 0 {
		var names []string
		for known := range r.keys {
			names = append(names, known)
		}
		slices.Sort(names)
		r.at(at, cmp.Or(diag.DidYouMean(name, names), "rollout judges check JOB_DIR --template writes the names that there are"), "the job has no task %s with a verdict", shown(name))
		return result.Key{}, false
	}
	for _, column := range []string{datasetColumn, agentColumn, attemptColumn} {
		want, where := get(column)
		if want == "" {
			continue
		}
		var left []result.Key
		for _, k := range all {
			if want == map[string]string{datasetColumn: k.Dataset, agentColumn: k.Agent, attemptColumn: strconv.Itoa(k.Attempt)}[column] {
				left = append(left, k)
			}
		}
		if len(left) == 0 {
			r.at(where, "rollout judges check JOB_DIR --template writes the trials that there are", "task %s has no trial with the %s %s and a verdict", shown(name), column, shown(want))
			return result.Key{}, false
		}
		all = left
	}
	if len(all) > 1 {
		var columns []string
		for column, differs := range map[string]bool{
			datasetColumn: all[0].Dataset != all[len(all)-1].Dataset, agentColumn: all[0].Agent != all[len(all)-1].Agent, attemptColumn: true,
		} {
			if v, _ := get(column); v == "" && differs {
				columns = append(columns, column)
			}
		}
		slices.Sort(columns)
		r.at(at, "say which one in the column "+strings.Join(columns, " and in "), "task %s has %d trials with verdicts", shown(name), len(all))
		return result.Key{}, false
	}
	return all[0], true
}

func (r *reader) label(key result.Key, s Subject, rater, text string, at int) {
	value, ok := s.parse(text, r.comma)
	if !ok {
		hint := "write a number from 0 to 1, pass or fail"
		if words := s.words(); words != "" {
			hint = "write one of: " + words
			if s.Open {
				hint += ", or a number from 0 to 1"
			}
		}
		r.at(at, hint, "%s is no label of %s", shown(text), s.Name)
		return
	}
	line, _ := r.csv.FieldPos(at)
	id := key.String() + "\x00" + s.Name + "\x00" + rater
	if before, twice := r.seen[id]; twice {
		r.at(at, "remove one, or name different people in the column rater", "line %d has a label of %s for this trial already", before, s.Name)
		return
	}
	r.seen[id] = line
	r.labels = append(r.labels, Label{Trial: key, Subject: s.Name, Rater: rater, Value: value, Line: line})
}

func (s Subject) words() string {
	var words []string
	for _, c := range s.Choices {
		words = append(words, c.Word)
	}
	return excerpt.Line(strings.Join(words, ", "), 200)
}

// parse returns the value of a label. It tries the words of the scale first, then numbers, then
// words for the best and the worst.
func (s Subject) parse(text string, comma bool) (float64, bool) {
	for _, c := range s.Choices {
		if strings.EqualFold(c.Word, text) {
			return c.Value, true
		}
	}
	if comma {
		text = strings.Replace(text, ",", ".", 1)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		switch strings.ToLower(text) {
		case "pass", "yes", "true":
			value = 1
		case "fail", "no", "false":
			value = 0
		default:
			return 0, false
		}
		return value, s.Open || len(s.Choices) == 0 || len(s.Choices) == 2
	}
	if len(s.Choices) > 0 {
		for _, c := range s.Choices {
			if math.Abs(c.Value-value) < 0.005 { // people write a third as 0.33
				return c.Value, true
			}
		}
		return value, s.Open && value >= 0 && value <= 1
	}
	return value, value >= 0 && value <= 1
}

// formula lists the characters that start a formula in a spreadsheet cell.
const formula = "=+-@\t\r"

// cellText keeps a spreadsheet from taking text as a formula.
func cellText(text string) string {
	if text != "" && strings.ContainsRune(formula, rune(text[0])) {
		return "'" + text
	}
	return text
}

// WriteTemplate writes a file of labels to be filled in, with a line for each trial. dir returns
// the path of a trial's files. Columns whose values are all the same are left out.
func WriteTemplate(w io.Writer, keys []result.Key, subjects []Subject, dir func(result.Key) string) error {
	out := csv.NewWriter(w)
	type column struct {
		name string
		of   func(result.Key) string
	}
	columns := []column{{taskColumn, func(k result.Key) string { return k.Task }}}
	for _, c := range []column{
		{datasetColumn, func(k result.Key) string { return k.Dataset }}, {agentColumn, func(k result.Key) string { return k.Agent }},
		{attemptColumn, func(k result.Key) string { return strconv.Itoa(k.Attempt) }},
	} {
		if slices.ContainsFunc(keys, func(k result.Key) bool { return c.of(k) != c.of(keys[0]) }) {
			columns = append(columns, c)
		}
	}
	empty := func(result.Key) string { return "" }
	for _, s := range subjects {
		columns = append(columns, column{s.Name, empty})
	}
	columns = append(columns, column{raterColumn, empty}, column{noteColumn, empty}, column{filesColumn, dir})
	var header []string
	for _, c := range columns {
		header = append(header, c.name)
	}
	_ = out.Write(header) // Error reports it
	for _, k := range keys {
		var line []string
		for _, c := range columns {
			line = append(line, cellText(c.of(k)))
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}
