package modaltest

import (
	"context"
	"io"
	"sync"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/org/rollout-action/internal/core/environment"
)

// execution is a command in a sandbox.
type execution struct {
	stdin  *io.PipeWriter
	done   chan struct{}
	code   int32
	output outputs

	writing sync.Mutex
	written uint64
}

// outputs keeps what a command prints, for reads that begin anywhere.
type outputs struct {
	mu      sync.Mutex
	first   uint64 // offset of kept
	kept    []byte
	changed chan struct{}
	closed  bool
}

const (
	// keptBehind is how much output is kept that was read already: more than a connection holds.
	keptBehind = 80 << 20
	// chunk is the most that one message has.
	chunk = 256 << 10
)

// Write implements io.Writer.
func (o *outputs) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p...)
	o.wake()
	return len(p), nil
}

func (o *outputs) wake() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

func (o *outputs) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wake()
}

// read returns output from an offset, or a channel that is closed when there is more.
func (o *outputs) read(at uint64) (data []byte, more <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at < o.first || at > o.first+uint64(len(o.kept)) {
		return nil, nil, status.Error(codes.OutOfRange, "no such offset")
	}
	if drop := int64(at) - int64(o.first) - keptBehind; drop > keptBehind/4 {
		o.kept = append([]byte(nil), o.kept[drop:]...)
		o.first += uint64(drop)
	}
	rest := o.kept[at-o.first:]
	if len(rest) > 0 {
		return rest[:min(len(rest), chunk)], nil, nil
	}
	if o.closed {
		return nil, nil, io.EOF
	}
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return nil, o.changed, nil
}

// router serves the commands of sandboxes.
type router struct {
	pb.UnimplementedTaskCommandRouterServer
	s *Service
}

// TaskExecStart implements Modal's API.
func (x *router) TaskExecStart(_ context.Context, r *pb.TaskExecStartRequest) (*pb.TaskExecStartResponse, error) {
	b, err := x.s.sandbox(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	if b.ended() {
		return nil, status.Error(codes.FailedPrecondition, "Sandbox has already finished")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.execs[r.GetExecId()] != nil {
		return &pb.TaskExecStartResponse{}, nil
	}
	if r.GetStderrConfig() != pb.TaskExecStderrConfig_TASK_EXEC_STDERR_CONFIG_DEVNULL || r.GetStdoutConfig() != pb.TaskExecStdoutConfig_TASK_EXEC_STDOUT_CONFIG_PIPE {
		return nil, status.Error(codes.InvalidArgument, "the service knows no such configuration of the streams")
	}
	in, out := io.Pipe()
	e := &execution{stdin: out, done: make(chan struct{})}
	b.execs[r.GetExecId()] = e
	go func() {
		code, err := b.env.Exec(b.ctx, quoted(r.GetCommandArgs()), environment.ExecOptions{WorkDir: r.GetWorkdir(), User: "root", Stdin: in, Stdout: &e.output})
		if err != nil && code == 0 {
			code = 1
		}
		_ = in.CloseWithError(errGone)
		e.code = int32(code)
		e.output.close()
		close(e.done)
	}()
	return &pb.TaskExecStartResponse{}, nil
}

func (s *Service) execution(task, id string) (*sandbox, *execution, error) {
	b, err := s.sandbox(task)
	if err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.execs[id]; e != nil {
		return b, e, nil
	}
	return nil, nil, status.Error(codes.NotFound, "no such exec")
}

// TaskExecStdioRead implements Modal's API.
func (x *router) TaskExecStdioRead(r *pb.TaskExecStdioReadRequest, stream grpc.ServerStreamingServer[pb.TaskExecStdioReadResponse]) error {
	b, e, err := x.s.execution(r.GetTaskId(), r.GetExecId())
	if err != nil {
		return err
	}
	if r.GetFileDescriptor() != pb.TaskExecStdioFileDescriptor_TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT {
		return status.Error(codes.InvalidArgument, "that stream is not piped")
	}
	left := x.s.fault().Cut
	for at := r.GetOffset(); ; {
		data, more, err := e.output.read(at)
		if err == io.EOF { //nolint:errorlint // as read returns it
			return nil
		}
		if err != nil {
			return err
		}
		if len(data) > 0 {
			if cut := x.s.fault().Cut; cut > 0 && left < len(data) {
				data = data[:left]
			}
			left -= len(data)
			if err := stream.Send(pb.TaskExecStdioReadResponse_builder{Data: data}.Build()); err != nil {
				return err
			}
			x.s.moved(len(data))
			at += uint64(len(data))
			if x.s.fault().Cut > 0 && left <= 0 {
				return status.Error(codes.Unavailable, "the connection was cut")
			}
			continue
		}
		select {
		case <-more:
		case <-b.done:
			return status.Error(codes.FailedPrecondition, "Sandbox has already finished")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// TaskExecStdinWrite implements Modal's API.
func (x *router) TaskExecStdinWrite(_ context.Context, r *pb.TaskExecStdinWriteRequest) (*pb.TaskExecStdinWriteResponse, error) {
	b, e, err := x.s.execution(r.GetTaskId(), r.GetExecId())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(b.ctx, func() { _ = e.stdin.CloseWithError(errGone) })
	defer stop()
	e.writing.Lock()
	defer e.writing.Unlock()
	data := r.GetData()
	switch behind := int64(e.written) - int64(r.GetOffset()); {
	case behind < 0:
		return nil, status.Error(codes.OutOfRange, "bytes are missing before the offset")
	case behind > 0: // a repetition
		data = data[min(behind, int64(len(data))):]
	}
	n, err := e.stdin.Write(data)
	e.written += uint64(n)
	x.s.moved(n)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, "the command has ended")
	}
	if r.GetEof() {
		_ = e.stdin.Close()
	}
	return &pb.TaskExecStdinWriteResponse{}, nil
}

// TaskExecWait implements Modal's API.
func (x *router) TaskExecWait(ctx context.Context, r *pb.TaskExecWaitRequest) (*pb.TaskExecWaitResponse, error) {
	_, e, err := x.s.execution(r.GetTaskId(), r.GetExecId())
	if err != nil {
		return nil, err
	}
	select {
	case <-e.done:
		return pb.TaskExecWaitResponse_builder{Code: &e.code}.Build(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TaskSetNetworkAccess implements Modal's API.
func (x *router) TaskSetNetworkAccess(ctx context.Context, r *pb.TaskSetNetworkAccessRequest) (*pb.TaskSetNetworkAccessResponse, error) {
	b, err := x.s.sandbox(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	if r.GetNetworkAccess().GetNetworkAccessType() != pb.NetworkAccess_ALLOWLIST {
		return nil, status.Error(codes.InvalidArgument, "only allowlists are supported")
	}
	network, err := networkOf(r.GetNetworkAccess())
	if err != nil {
		return nil, err
	}
	if err := environment.SetNetwork(ctx, b.env, network); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &pb.TaskSetNetworkAccessResponse{}, nil
}
