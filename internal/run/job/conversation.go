package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/model/trajectory"
)

// MaxOutputConversation limits a conversation in a line of outputs.jsonl, and the record that it is
// made from, in bytes. Each turn repeats the conversation before it, so a line grows with the
// square of the turns; and many trials of a job end at once.
const MaxOutputConversation = 1 << 20

// AddConversation adds the conversation that the gateway recorded to a trial's output, if it is at
// most limit bytes. dir is the job's directory. The contents of the trial's directory are hostile.
func AddConversation(o *result.Output, dir string, t result.Trial, limit int) error {
	if t.Usage == nil {
		return nil
	}
	var c trajectory.Conversation
	err := ReadRecord(dir, t, int64(limit), func(r *trajectory.Record) (err error) {
		c, err = r.Conversation(t.Key.String(), limit)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, trajectory.ErrEmpty) {
		return nil
	}
	if errors.Is(err, trajectory.ErrTooLong) {
		o.ConversationOmitted = fmt.Sprintf("it has more than %d MiB", limit>>20)
		return nil
	}
	o.Completion, o.Trajectory, o.ToolDefs, o.TokensOmitted = c.Completion, c.Trajectory, c.Tools, c.TokensOmitted
	return err
}

// ReadRecord calls use with the gateway's record of a trial. It fails with fs.ErrNotExist,
// trajectory.ErrEmpty, or trajectory.ErrTooLong for a record of more than limit bytes without token
// ids; 0 is trajectory.MaxRecord with them.
func ReadRecord(dir string, t result.Trial, limit int64, use func(*trajectory.Record) error) error {
	f, err := OpenTrialFile(dir, t, result.TrajectoryFile)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	record, err := trajectory.Read(io.NewSectionReader(f, 0, info.Size()), limit)
	if err != nil {
		return err
	}
	return use(record)
}

// OpenTrialFile opens a file below a trial's directory without following links.
func OpenTrialFile(dir string, t result.Trial, name string) (*os.File, error) {
	below, name := path.Split(name)
	sub, err := nofollow.OpenDirBelow(dir, strings.Split(path.Join(t.Dir(), below), "/")...)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	return nofollow.OpenAt(sub, name)
}
