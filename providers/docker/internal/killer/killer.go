// Package killer ends commands in containers from a container of ours that sees the engine's
// processes. It uses nothing of the containers that it looks into. It does not know the engine,
// which says what to end, nor why.
package killer

import (
	"encoding/json"
	"io"
)

// Role is the name that this program is started by to be a killer: that of its file.
const Role = "rollout-killer"

// Op names the operation of a Request.
type Op string

// The operations of a killer.
const (
	Find   Op = "find"   // says when Root began
	Strike Op = "strike" // sends SIGKILL to all that Root started, and does not wait: the container is paused
	Kill   Op = "kill"   // ends all that Root started, and answers when it is dead
)

// Request is one line of a killer's input. Ids of processes are the engine's.
type Request struct {
	ID    int64 `json:"id"` // of the answer, too
	Op    Op    `json:"op"`
	First int   `json:"first"` // the container's first process
	Root  int   `json:"root"`  // the command's
	Start int64 `json:"start"` // when Root began, as Find says
	// Others are commands in the container that others have started since.
	Others []int `json:"others,omitempty"`
	// Seconds bound it.
	Seconds float64 `json:"seconds"`
}

// Answer is one line of a killer's output.
type Answer struct {
	ID    int64  `json:"id"`
	Start int64  `json:"start,omitempty"`
	Gone  bool   `json:"gone,omitempty"`  // Find: the container has no process Root
	Error string `json:"error,omitempty"` // "" if it was done
}

// Answers reads a killer's output and hands it on until it ends.
func Answers(output io.Reader, take func(Answer)) error {
	for decoder := json.NewDecoder(output); ; {
		var a Answer
		if err := decoder.Decode(&a); err != nil {
			return err
		}
		take(a)
	}
}
