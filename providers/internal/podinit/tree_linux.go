package podinit

import (
	"encoding/json"
	"io"

	"github.com/hashicorp/yamux"

	"github.com/org/rollout-action/providers/internal/initproc"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// filesPerFrame is how many files one frame of a list has at most. Their paths may be as long as
// paths can be.
const filesPerFrame = 500

// list writes the list of the files as frames.
func (s *server) list(stream *yamux.Stream) {
	var some []initwire.File
	flush := func() error {
		text, err := json.Marshal(some)
		some = some[:0]
		if err == nil {
			err = writeFrame(stream, frameStdout, text)
		}
		return err
	}
	err := initproc.ListFiles(s.began, func(f initwire.File) error {
		if some = append(some, f); len(some) < filesPerFrame {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	s.finish(stream, err)
}

// packFiles writes the files whose paths the rest of the stream has as frames of a tar stream.
func (s *server) packFiles(stream *yamux.Stream) {
	paths, writer := io.Pipe()
	go func() { writer.CloseWithError(copyFrames(writer, stream)) }() // nil is the end
	err := initproc.PackFiles(paths, frameWriter{stream, frameStdout})
	paths.CloseWithError(errStopped)
	s.finish(stream, err)
}

// finish writes the reply to a request whose answer is in frames.
func (s *server) finish(stream *yamux.Stream, err error) {
	end := reply{Ended: s.ending()}
	if err != nil {
		end.Problem, end.Kind = err.Error(), kindOf(err)
	}
	_ = writeReply(stream, end) // if it fails, the client is gone
}
