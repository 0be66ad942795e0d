package report

import (
	"errors"
	"io"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/model/trajectory"
)

// maxTrajectory bounds the bytes of a trajectory that is read.
const maxTrajectory = 32 << 20

// Trajectory reads a trajectory in the job's directory. It follows no link. The error is
// fs.ErrNotExist if there is none.
func Trajectory(in Input, file string) (*trajectory.Trajectory, error) {
	f, size, err := Open(in, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxTrajectory {
		return nil, errors.New("the trajectory is too large")
	}
	var record trajectory.Trajectory
	if err := bounded.NewDecoder(io.LimitReader(f, maxTrajectory)).Decode(&record); err != nil {
		return nil, err
	}
	return &record, nil
}
