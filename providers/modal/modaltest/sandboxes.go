package modaltest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/org/rollout-action/internal/core/environment"
)

// sandbox is a sandbox, with the environment that runs its commands.
type sandbox struct {
	id, app    string
	created    float64
	definition *pb.Sandbox
	env        environment.Environment
	cancel     context.CancelFunc
	ctx        context.Context //nolint:containedctx // as long as the sandbox
	done       chan struct{}   // the result is there
	destroyed  chan struct{}
	once       sync.Once
	result     *pb.GenericResult

	mu    sync.Mutex
	tags  map[string]string
	execs map[string]*execution
}

// end gives the sandbox its result, and ends its processes.
func (b *sandbox) end(result pb.GenericResult_GenericStatus, code int) {
	b.once.Do(func() {
		b.result = pb.GenericResult_builder{Status: result, Exitcode: int32(code)}.Build()
		close(b.done)
		b.cancel()
		go func() {
			defer close(b.destroyed)
			_ = b.env.Destroy(context.Background()) // the provider's own tests say whether it can
		}()
	})
}

func (b *sandbox) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// SandboxCreateV2 implements Modal's API.
func (s *Service) SandboxCreateV2(ctx context.Context, r *pb.SandboxCreateV2Request) (*pb.SandboxCreateV2Response, error) {
	if r.GetDefinition().GetResources().GetGpuConfig().GetCount() > 0 {
		return nil, status.Error(codes.InvalidArgument, "GPUs are not supported")
	}
	b, err := s.create(ctx, s.id("sb"), r.GetAppId(), r.GetDefinition(), r.GetTags())
	if err != nil {
		return nil, err
	}
	access := pb.CommandRouterAccess_builder{Jwt: jwt(), Url: "https://" + s.url}.Build()
	return pb.SandboxCreateV2Response_builder{SandboxId: b.id, TaskId: "ta-" + b.id, CommandRouterAccess: access}.Build(), nil
}

// SandboxCreate implements Modal's API: sandboxes of the first version have ids of another form.
func (s *Service) SandboxCreate(ctx context.Context, r *pb.SandboxCreateRequest) (*pb.SandboxCreateResponse, error) {
	id := s.id("sb")
	b, err := s.create(ctx, "sb-"+id[len(id)-22:], r.GetAppId(), r.GetDefinition(), r.GetTags())
	if err != nil {
		return nil, err
	}
	return pb.SandboxCreateResponse_builder{SandboxId: b.id}.Build(), nil
}

func (s *Service) create(ctx context.Context, id, app string, d *pb.Sandbox, tags []*pb.SandboxTag) (*sandbox, error) {
	i := s.imageByID(d.GetImageId())
	switch {
	case i == nil:
		return nil, status.Error(codes.NotFound, "no such image")
	case !slices.Contains(slices.Collect(maps.Values(s.allApps())), app):
		return nil, status.Error(codes.NotFound, "no such app")
	case d.GetTimeoutSecs() < 1 || d.GetTimeoutSecs() > 24*60*60:
		return nil, status.Error(codes.InvalidArgument, "timeout_secs must be between 1 and 86400")
	case d.GetResources().GetMilliCpuMax() > 64_000:
		return nil, status.Error(codes.InvalidArgument, "CPU request is too large")
	}
	network, err := networkOf(d.GetNetworkAccess())
	if err != nil {
		return nil, err
	}
	env, err := s.runs.CreateEnvironment(ctx, environment.CreateOptions{
		Image: i.ref, Network: network, Labels: environment.Labels{Job: "modaltest", Owner: environment.Self()},
		Limits: environment.Limits{MilliCPUs: int64(d.GetResources().GetMilliCpuMax()), Memory: int64(d.GetResources().GetMemoryMbMax()) << 20},
	})
	if environment.KindOf(err) == environment.KindResources {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	b := &sandbox{id: id, app: app, definition: d, created: float64(time.Now().UnixNano()) / 1e9, env: env, done: make(chan struct{}), destroyed: make(chan struct{}), tags: tagMap(tags), execs: map[string]*execution{}}
	b.ctx, b.cancel = context.WithTimeout(s.ctx, time.Duration(d.GetTimeoutSecs())*time.Second)
	s.mu.Lock()
	s.sandboxes[id] = b
	s.order = append(s.order, id)
	s.mu.Unlock()
	go b.run()
	return b, nil
}

// run runs the sandbox's own command. The sandbox ends with it.
func (b *sandbox) run() {
	code, err := b.env.Exec(b.ctx, quoted(b.definition.GetEntrypointArgs()), environment.ExecOptions{WorkDir: b.definition.GetWorkdir(), User: "root"})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		b.end(pb.GenericResult_GENERIC_STATUS_TIMEOUT, 0)
	case err != nil:
		b.end(pb.GenericResult_GENERIC_STATUS_INTERNAL_FAILURE, 1)
	default:
		b.end(pb.GenericResult_GENERIC_STATUS_SUCCESS, code)
	}
}

// quoted returns a script that becomes a command.
func quoted(args []string) string {
	var b strings.Builder
	b.WriteString("exec")
	for _, arg := range args {
		b.WriteString(" '" + strings.ReplaceAll(arg, "'", `'\''`) + "'")
	}
	return b.String()
}

func (s *Service) allApps() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.apps)
}

// networkOf returns the network of a sandbox: all, or nothing.
func networkOf(a *pb.NetworkAccess) (environment.Network, error) {
	none := environment.Network{Mode: environment.NetworkNone}
	switch a.GetNetworkAccessType() {
	case pb.NetworkAccess_OPEN:
		return environment.Network{}, nil
	case pb.NetworkAccess_BLOCKED:
		return none, nil
	case pb.NetworkAccess_ALLOWLIST:
		if len(a.GetAllowedCidrs()) == 0 && len(a.GetAllowedDomains()) == 0 {
			return none, nil
		}
		if slices.Contains(a.GetAllowedCidrs(), "0.0.0.0/0") && slices.Contains(a.GetAllowedDomains(), "*") {
			return environment.Network{}, nil
		}
	}
	return none, status.Error(codes.InvalidArgument, "the service knows no such network access")
}

func tagMap(tags []*pb.SandboxTag) map[string]string {
	m := map[string]string{}
	for _, tag := range tags {
		m[tag.GetTagName()] = tag.GetTagValue()
	}
	return m
}

func (s *Service) sandbox(id string) (*sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.sandboxes[strings.TrimPrefix(id, "ta-")]; b != nil {
		return b, nil
	}
	return nil, status.Error(codes.NotFound, "Sandbox not found")
}

// SandboxWaitV2 implements Modal's API.
func (s *Service) SandboxWaitV2(ctx context.Context, r *pb.SandboxWaitRequest) (*pb.SandboxWaitResponse, error) {
	b, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	select {
	case <-b.done:
		return pb.SandboxWaitResponse_builder{Result: b.result}.Build(), nil
	case <-time.After(time.Duration(r.GetTimeout() * float32(time.Second))):
	case <-ctx.Done():
	}
	return &pb.SandboxWaitResponse{}, nil
}

// SandboxWait implements Modal's API.
func (s *Service) SandboxWait(ctx context.Context, r *pb.SandboxWaitRequest) (*pb.SandboxWaitResponse, error) {
	return s.SandboxWaitV2(ctx, r)
}

// SandboxTerminateV2 implements Modal's API.
func (s *Service) SandboxTerminateV2(_ context.Context, r *pb.SandboxTerminateRequest) (*pb.SandboxTerminateResponse, error) {
	b, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	b.end(pb.GenericResult_GENERIC_STATUS_TERMINATED, 0)
	return &pb.SandboxTerminateResponse{}, nil
}

// SandboxTerminate implements Modal's API.
func (s *Service) SandboxTerminate(ctx context.Context, r *pb.SandboxTerminateRequest) (*pb.SandboxTerminateResponse, error) {
	return s.SandboxTerminateV2(ctx, r)
}

// SandboxListV2 implements Modal's API: the newest first, a few at a time.
func (s *Service) SandboxListV2(_ context.Context, r *pb.SandboxListRequest) (*pb.SandboxListResponse, error) {
	const page = 3
	lag := s.fault().Lag
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*pb.SandboxInfo
	for _, id := range slices.Backward(s.order) {
		b := s.sandboxes[id]
		if b == nil || b.ended() && !lag || r.GetAppId() != "" && r.GetAppId() != b.app || r.GetBeforeTimestamp() > 0 && b.created >= r.GetBeforeTimestamp() {
			continue
		}
		b.mu.Lock()
		fits := true
		for _, tag := range r.GetTags() {
			fits = fits && b.tags[tag.GetTagName()] == tag.GetTagValue()
		}
		b.mu.Unlock()
		if fits {
			list = append(list, pb.SandboxInfo_builder{Id: id, CreatedAt: b.created, AppId: b.app}.Build())
		}
		if len(list) == page {
			break
		}
	}
	return pb.SandboxListResponse_builder{Sandboxes: list}.Build(), nil
}

// SandboxTagsGetV2 implements Modal's API.
func (s *Service) SandboxTagsGetV2(_ context.Context, r *pb.SandboxTagsGetRequest) (*pb.SandboxTagsGetResponse, error) {
	b, err := s.sandbox(r.GetSandboxId())
	if err == nil && b.ended() {
		err = status.Error(codes.NotFound, "Sandbox not found")
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var tags []*pb.SandboxTag
	for name, value := range b.tags {
		tags = append(tags, pb.SandboxTag_builder{TagName: name, TagValue: value}.Build())
	}
	return pb.SandboxTagsGetResponse_builder{Tags: tags}.Build(), nil
}

// SandboxTagsGet implements Modal's API.
func (s *Service) SandboxTagsGet(ctx context.Context, r *pb.SandboxTagsGetRequest) (*pb.SandboxTagsGetResponse, error) {
	return s.SandboxTagsGetV2(ctx, r)
}

// SandboxTagsSetV2 implements Modal's API.
func (s *Service) SandboxTagsSetV2(_ context.Context, r *pb.SandboxTagsSetRequest) (*emptypb.Empty, error) {
	b, err := s.sandbox(r.GetSandboxId())
	if err == nil && b.ended() {
		err = status.Error(codes.NotFound, "Sandbox not found")
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tags = tagMap(r.GetTags())
	return &emptypb.Empty{}, nil
}

// SandboxTagsSet implements Modal's API.
func (s *Service) SandboxTagsSet(ctx context.Context, r *pb.SandboxTagsSetRequest) (*emptypb.Empty, error) {
	return s.SandboxTagsSetV2(ctx, r)
}

// SandboxGetTaskId implements Modal's API.
func (s *Service) SandboxGetTaskId(_ context.Context, r *pb.SandboxGetTaskIdRequest) (*pb.SandboxGetTaskIdResponse, error) { //nolint:revive // the protocol's name
	b, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	task := "ta-" + b.id
	return pb.SandboxGetTaskIdResponse_builder{TaskId: &task}.Build(), nil
}

// SandboxGetTaskIdV2 implements Modal's API.
func (s *Service) SandboxGetTaskIdV2(ctx context.Context, r *pb.SandboxGetTaskIdRequest) (*pb.SandboxGetTaskIdResponse, error) { //nolint:revive // the protocol's name
	return s.SandboxGetTaskId(ctx, r)
}

// SandboxGetCommandRouterAccess implements Modal's API.
func (s *Service) SandboxGetCommandRouterAccess(context.Context, *pb.SandboxGetCommandRouterAccessRequest) (*pb.SandboxGetCommandRouterAccessResponse, error) {
	return pb.SandboxGetCommandRouterAccessResponse_builder{Jwt: jwt(), Url: "https://" + s.url}.Build(), nil
}

// TaskGetCommandRouterAccess implements Modal's API.
func (s *Service) TaskGetCommandRouterAccess(context.Context, *pb.TaskGetCommandRouterAccessRequest) (*pb.TaskGetCommandRouterAccessResponse, error) {
	return pb.TaskGetCommandRouterAccessResponse_builder{Jwt: jwt(), Url: "https://" + s.url}.Build(), nil
}
