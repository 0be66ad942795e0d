package agreement

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

var (
	someKeys = []result.Key{
		{Agent: "mine", Dataset: "evals", Task: "one", Attempt: 1},
		{Agent: "mine", Dataset: "evals", Task: "two", Attempt: 1},
		{Agent: "mine", Dataset: "evals", Task: "two", Attempt: 2},
	}
	someSubjects = []Subject{{Name: "quality"}, {Name: "style"}, {Name: "style.clear", Choices: []Choice{{"no", 0}, {"partly", 0.5}, {"yes", 1}}}, {Name: "task.own", Open: true, Choices: []Choice{{"good", 1}}}}
)

func TestReadLabels(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string // values, or a part of the problems
	}{
		"a column for each":               {"task,attempt,quality,style.clear\none,,0.7,partly\ntwo,2,pass,no\n", "0.7 0.5 1 0"},
		"judge and label":                 {"task,attempt,judge,label\none,1,quality,1\none,1,clear,YES\n", "1 1"},
		"a European spreadsheet":          {"\ufefftask;attempt;quality;rater\r\none;;0,7;Ann\r\none;;0,6;Bob\r\n;;;\r\n", "0.7 0.6"},
		"a line that names the separator": {"sep=;\r\ntask;quality\r\none;0,7\r\n", "0.7"},
		"the same in quotes":              {"\"sep=,\"\ntask,quality\none,0.7\n", "0.7"},
		"its lines are counted":           {"sep=;\ntask;quality\none;9\n", "labels.csv:3:5: \"9\" is no label"},
		"a Macintosh":                     {"task,quality\rone,0.7\r", "0.7"},
		// Gnumeric 1.12 saved it with semicolons and the line ends of Windows; Excel puts the mark
		// at its beginning.
		"a spreadsheet with notes of several lines": {"\ufefftask;attempt;quality;style.clear;rater;note\r\none;;0,7;partly;\"Anna \"\"A.\"\" Müller\";\"first line\nsecond, with comma; and semicolon\"\r\ntwo;2;0;no;2;-5\r\n", "0.7 0.5 0 0"},
		"lines after a note of several lines":       {"task;attempt;quality;note\r\none;;0,7;\"a\r\nb\"\r\ntwo;2;9;\r\n", "labels.csv:4:7: \"9\" is no label"},
		"a formula for a label":                     {"task,quality\none,=1+1\n", `"=1+1" is no label`},
		"tabs":                                      {"task\tattempt\tquality\ntwo\t1\t1\n", "1"},
		"tabs around empty cells":                   {"task\tattempt\tquality\tstyle\ntwo\t1\t\t0.5\n", "0.5"},
		"too few columns":                           {"task,attempt,quality\none,1\n", "labels.csv:2:1: the line has 2 columns and the header 3 (write a separator"},
		"the trial's whole name":                    {"task,quality\nmine/evals/two__2,1\n", "1"},
		"empty labels are left out":                 {"task,attempt,quality,style\none,,,0.5\ntwo,1,,\nunknown,,,\n", "0.5"},
		"a third":                                   {"task,style.clear\none,0.5\n", "0.5"},
		"choices that are not known":                {"task,task.own\none,good\nmine/evals/two__1,0.5\nmine/evals/two__2,fail\n", "1 0.5 0"},
		"a word that is not known":                  {"task,task.own\none,bad\n", `write one of: good, or a number from 0 to 1`},
		"notes are for people":                      {"task,quality,note,directory\none,1,\"a, b\",x\n", "1"},
		"nothing":                                   {"", "labels.csv: the file is empty"},
		"not text":                                  {"\xff\xfet\x00", "save it as CSV UTF-8"},
		"an unknown column":                         {"task,qualty\none,1\n", `labels.csv:1:6: no judge and no criterion has the name "qualty" (did you mean "quality"?)`},
		"a column twice":                            {"task,quality,Quality\n", "labels.csv:1:14: the columns 2 and 3 have the same name"},
		"no task":                                   {"quality\n1\n", "labels.csv:1:1: no column has the names of the tasks (add the column task)"},
		"no labels":                                 {"task\none\n", "no column has labels (add a column with the name of a judge or criterion: quality, style, style.clear, task.own)"},
		"a label without a judge column":            {"task,label\none,1\n", "one of the columns judge and label is there without the other"},
		"an unknown task":                           {"task,quality\nome,1\n", `labels.csv:2:1: the job has no task "ome" with a verdict (did you mean "one"?)`},
		"an unknown attempt":                        {"task,attempt,quality\none,3,1\n", `labels.csv:2:5: task "one" has no trial with the attempt "3" and a verdict`},
		"which attempt":                             {"task,quality\ntwo,1\n", `labels.csv:2:1: task "two" has 2 trials with verdicts (say which one in the column attempt)`},
		"a word that is no choice":                  {"task,style.clear\none,maybe\n", `labels.csv:2:5: "maybe" is no label of style.clear (write one of: no, partly, yes)`},
		"pass for three choices":                    {"task,style.clear\none,pass\n", `"pass" is no label`},
		"a number that is no choice":                {"task,style.clear\none,0.7\n", `"0.7" is no label`},
		"a number out of range":                     {"task,quality\none,7\n", `labels.csv:2:5: "7" is no label of quality (write a number from 0 to 1, pass or fail)`},
		"no number":                                 {"task,quality\none,NaN\n", `"NaN" is no label`},
		"a label twice":                             {"task,quality\none,1\none,0\n", "labels.csv:3:5: line 2 has a label of quality for this trial already (remove one, or name different people in the column rater)"},
		"no end of quotes":                          {"task,quality\n\"one,1\n", "the line is not CSV"},
		"too many columns":                          {"task,quality\none,0,7\n", "labels.csv:2:7: the line has more columns than the header"},
		"all problems at once":                      {"task,quality\nxxx,1\none,9\n", `"9" is no label`},
	} {
		t.Run(name, func(t *testing.T) {
			labels, problems := ReadLabels("labels.csv", []byte(test.text), someKeys, someSubjects)
			if len(problems) > 0 {
				if !strings.Contains(problems.Error(), test.want) || labels != nil {
					t.Errorf("the problems are\n%v\nwant %s", problems, test.want)
				}
				return
			}
			var got []string
			for _, l := range labels {
				got = append(got, strconv.FormatFloat(l.Value, 'g', -1, 64))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, problems := ReadLabels("labels.csv", []byte("task,quality\n"+strings.Repeat("nobody,1\n", 1000)), someKeys, someSubjects)
	if len(problems) != maxProblems+1 {
		t.Errorf("%d problems", len(problems))
	}
}

func TestTheTemplateCanBeReadBack(t *testing.T) {
	keys := append(slices.Clone(someKeys), result.Key{Agent: "mine", Dataset: "evals", Task: "=cmd", Attempt: 1})
	var b bytes.Buffer
	if err := WriteTemplate(&b, keys, someSubjects, func(k result.Key) string { return "jobs/one/" + k.Dir() }); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, "task,attempt,quality,style,style.clear,task.own,rater,note,directory\none,1,,,,,,,jobs/one/mine/evals/one__1\n") || !strings.Contains(text, "\n'=cmd,") {
		t.Errorf("the template is\n%s", text)
	}
	if labels, problems := ReadLabels("labels.csv", []byte(text), keys, someSubjects); len(labels)+len(problems) > 0 {
		t.Errorf("an empty template has labels %v or problems %v", labels, problems)
	}
	filled := strings.ReplaceAll(text, ",1,,,", ",1,0.3,,yes")
	if labels, problems := ReadLabels("labels.csv", []byte(filled), keys, someSubjects); len(labels) != 6 || len(problems) > 0 {
		t.Errorf("a filled template has labels %v or problems %v", labels, problems)
	}
}
