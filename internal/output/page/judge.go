package page

import (
	"errors"
	"io/fs"
	"path"
	"strconv"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// Evidence is a file that judges were shown.
type Evidence struct {
	Name, Says string
	Text       Folded
}

// evidence lists the files that judges are shown and the section of a trial does not contain.
var evidence = []struct{ name, says string }{
	{result.JudgeInstructionFile, "what the agent was told"},
	{result.JudgeChangesFile, "the files that the agent has changed"},
	{"tests-" + result.StdoutFile, "the output of the tests"},
	{result.JudgeTranscriptFile, "what the agent said and did"},
}

// minShown is the smallest number of bytes of a judge's prompt or of evidence that are worth
// reading.
const minShown = 400

// maxJudged bounds the bytes of the trajectories of a trial's judges together.
const maxJudged = 32 << 20

// addEvidence adds what judges were asked, shown and did, within size bytes.
func (v *Trial) addEvidence(in report.Input, t result.Trial, size int) {
	if len(v.Judges) == 0 {
		return
	}
	share := size / 2 / len(v.Judges)
	room := int64(maxJudged)
	i := 0
	for _, run := range t.Agents {
		if run.Role != result.RoleJudge || i == len(v.Judges) {
			continue
		}
		key := t.Key
		if run.Group != nil {
			key = run.Group.Files
		}
		file := path.Join(key.Dir(), result.JudgesDir, run.Name, result.JudgePromptFile)
		if key == t.Key { // a ranking is asked for once, and is with another trial
			v.Judges[i].Prompt = v.text(in, file, share/2)
		}
		if run.Trajectory != "" && share/2 >= minConversation {
			file := path.Join(path.Dir(run.Trajectory), result.ATIFFile) // in the directory of the record of its calls
			record, err := trajectoryWithin(in, path.Join(key.Dir(), file), &room)
			if err == nil {
				c, left := conversation(*record, v.ID+"-j"+strconv.Itoa(i+1), share/2, 0)
				v.Judges[i].Conversation = &c
				if left > 0 {
					v.LeftOut = append(v.LeftOut, report.Plural(left, "turn")+" or parts of turns of the judge "+name(run.Name)+", "+cut(file, 400))
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				v.LeftOut = append(v.LeftOut, "the conversation of the judge "+name(run.Name)+", "+cut(file, 400))
			}
		}
		i++
	}
	for _, e := range evidence {
		text := v.text(in, path.Join(t.Dir(), result.JudgeInputsDir, e.name), size/2/len(evidence))
		if text.Text != "" {
			v.Evidence = append(v.Evidence, Evidence{e.name, e.says, text})
		}
	}
}

// text returns a file of the trial, shortened to most bytes. What does not fit is noted.
func (v *Trial) text(in report.Input, file string, most int) Folded {
	head, tail, dropped := report.RawEnds(in, file)
	if len(head)+len(tail) == 0 {
		return Folded{}
	}
	where := path.Join(path.Base(path.Dir(file)), path.Base(file))
	if most < minShown && dropped+int64(len(head)+len(tail)) > int64(most) {
		v.LeftOut = append(v.LeftOut, cut(path.Join(result.JudgesDir, where), 400))
		return Folded{}
	}
	text := string(head)
	if dropped > 0 {
		text += "\n[" + report.Count(int(dropped)) + " bytes are left out here]\n"
	}
	f, short := folded(text+string(tail), most)
	if short || dropped > 0 {
		v.LeftOut = append(v.LeftOut, "parts of "+cut(path.Join(result.JudgesDir, where), 400))
	}
	return f
}
