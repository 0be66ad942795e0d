package modaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing/fstest"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/org/rollout-action/internal/core/environment"
)

// image is an image that is built once.
type image struct {
	id, dockerfile string
	ref            string // of the provider that runs sandboxes
	anew           bool
	cancel         context.CancelFunc
	done           chan struct{}

	mu      sync.Mutex
	readers int
	lines   []string
	changed chan struct{}
	failure string
}

// ImageGetOrCreate implements Modal's API.
func (s *Service) ImageGetOrCreate(_ context.Context, r *pb.ImageGetOrCreateRequest) (*pb.ImageGetOrCreateResponse, error) {
	if r.GetBuilderVersion() == "" {
		return nil, status.Error(codes.InvalidArgument, "no builder version")
	}
	commands := r.GetImage().GetDockerfileCommands()
	if len(commands) == 0 || !strings.HasPrefix(commands[0], "FROM ") {
		return nil, status.Error(codes.InvalidArgument, "no FROM")
	}
	for _, base := range r.GetImage().GetBaseImages() {
		if commands[0] != "FROM "+base.GetDockerTag() {
			return nil, status.Error(codes.InvalidArgument, "a base that no instruction uses")
		}
		parent := s.imageByID(base.GetImageId())
		if parent == nil {
			return nil, status.Error(codes.NotFound, "no such base image")
		}
		commands = append([]string{parent.dockerfile}, commands[1:]...)
	}
	dockerfile := strings.TrimSpace(strings.Join(commands, "\n"))
	s.mu.Lock()
	i := s.images[dockerfile]
	if i == nil || r.GetForceBuild() || i.broken() {
		s.next++
		ctx, cancel := context.WithCancel(s.ctx)
		i = &image{id: fmt.Sprintf("im-%026d", s.next), dockerfile: dockerfile, anew: r.GetForceBuild(), cancel: cancel, done: make(chan struct{}), changed: make(chan struct{})}
		s.images[dockerfile] = i
		go i.build(ctx, s.runs)
	}
	s.mu.Unlock()
	response := pb.ImageGetOrCreateResponse_builder{ImageId: i.id}
	select {
	case <-i.done:
		response.Result = i.result()
	default:
	}
	return response.Build(), nil
}

func (s *Service) imageByID(id string) *image {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.images {
		if i.id == id {
			return i
		}
	}
	return nil
}

// broken reports whether the image's build has failed.
func (i *image) broken() bool {
	select {
	case <-i.done:
		return i.failure != ""
	default:
		return false
	}
}

func (i *image) result() *pb.GenericResult {
	if i.failure != "" {
		return pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_FAILURE, Exception: i.failure}.Build()
	}
	return pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_SUCCESS}.Build()
}

func (i *image) tell(line string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lines = append(i.lines, line+"\n")
	close(i.changed)
	i.changed = make(chan struct{})
}

func (i *image) build(ctx context.Context, runs environment.Provider) {
	defer close(i.done)
	var err error
	if from, rest, _ := strings.Cut(i.dockerfile, "\n"); rest == "" {
		i.ref = strings.TrimPrefix(from, "FROM ")
		err = runs.PullImage(ctx, i.ref, nil)
	} else {
		i.ref, err = runs.BuildImage(ctx, environment.BuildOptions{
			Context: fstest.MapFS{"Dockerfile": {Data: []byte(i.dockerfile + "\n"), Mode: 0o644}}, Name: "modal", NoCache: i.anew, Progress: i.tell,
		})
	}
	if err == nil {
		return
	}
	i.failure = "image build failed"
	var known *environment.Error
	if errors.As(err, &known) {
		i.failure = known.Err.Error()
		for line := range strings.Lines(known.Output) {
			i.tell(strings.TrimSpace(line))
		}
	}
}

// ImageJoinStreaming implements Modal's API. A build ends when no request waits for it.
func (s *Service) ImageJoinStreaming(r *pb.ImageJoinStreamingRequest, stream grpc.ServerStreamingServer[pb.ImageJoinStreamingResponse]) error {
	i := s.imageByID(r.GetImageId())
	if i == nil {
		return status.Error(codes.NotFound, "no such image")
	}
	i.mu.Lock()
	i.readers++
	i.mu.Unlock()
	defer i.leave()
	at, ended := 0, false
	for {
		i.mu.Lock()
		lines, changed := i.lines[at:], i.changed
		i.mu.Unlock()
		at += len(lines)
		for _, line := range lines {
			entry := pb.TaskLogs_builder{Data: line}.Build()
			if err := stream.Send(pb.ImageJoinStreamingResponse_builder{TaskLogs: []*pb.TaskLogs{entry}}.Build()); err != nil {
				return err
			}
		}
		if ended {
			return stream.Send(pb.ImageJoinStreamingResponse_builder{Result: i.result(), Eof: true}.Build())
		}
		select {
		case <-i.done:
			ended = true
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (i *image) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.readers--; i.readers == 0 {
		i.cancel()
	}
}
