// Package trajectory turns the recorded calls of a trial's model into a trajectory in the Agent
// Trajectory Interchange Format (ATIF), version 1.8, which other tools read. Its input are the
// lines that model.Recorder writes.
package trajectory
