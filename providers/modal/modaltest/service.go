package modaltest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/org/rollout-action/internal/core/environment"
)

// The token that the service accepts.
const (
	TokenID     = "ak-test"
	TokenSecret = "as-secret-of-a-test"
)

const routerToken = "router"

// Faults make the service fail.
type Faults struct {
	// Fail, if not nil, is called before each call, with its method's name, and returns its error.
	Fail func(method string) error
	// Cut is how many bytes of output one stream has before it breaks; 0: it does not.
	Cut int
	// Lag makes lists have sandboxes that have ended.
	Lag bool
}

// Service is the control plane and the command routers.
type Service struct {
	pb.UnimplementedModalClientServer

	runs environment.Provider
	url  string
	stop context.CancelFunc
	ctx  context.Context //nolint:containedctx // as long as the service
	grpc *grpc.Server

	mu        sync.Mutex
	faults    Faults
	calls     map[string]int
	bytes     int64
	apps      map[string]string
	images    map[string]*image
	sandboxes map[string]*sandbox
	order     []string
	next      int
}

// Start starts a service on this machine that runs sandboxes in environments of a provider.
func Start(runs environment.Provider) (*Service, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Service{runs: runs, url: listener.Addr().String(), calls: map[string]int{}, apps: map[string]string{}, images: map[string]*image{}, sandboxes: map[string]*sandbox{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	const large = 100 << 20
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(large), grpc.MaxSendMsgSize(large), grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	pb.RegisterModalClientServer(s.grpc, s)
	pb.RegisterTaskCommandRouterServer(s.grpc, &router{s: s})
	go func() { _ = s.grpc.Serve(listener) }() // ends with Close
	return s, nil
}

// Variables returns the environment variables with which Modal's client finds the service.
func (s *Service) Variables() map[string]string {
	return map[string]string{"MODAL_SERVER_URL": "http://" + s.url, "MODAL_TOKEN_ID": TokenID, "MODAL_TOKEN_SECRET": TokenSecret, "MODAL_CONFIG_PATH": "/dev/null"}
}

// Close ends all sandboxes, and returns when they have ended.
func (s *Service) Close() {
	s.mu.Lock()
	var all []*sandbox
	for _, b := range s.sandboxes {
		all = append(all, b)
	}
	s.mu.Unlock()
	for _, b := range all {
		b.end(pb.GenericResult_GENERIC_STATUS_TERMINATED, 0)
		<-b.destroyed
	}
	s.stop()
	s.grpc.Stop()
}

// SetFaults changes how the service fails.
func (s *Service) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

func (s *Service) fault() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// Calls returns how often each method was called, and how many bytes went to and from commands.
func (s *Service) Calls() (calls map[string]int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls = map[string]int{}
	for method, n := range s.calls {
		calls[method] = n
	}
	return calls, s.bytes
}

func (s *Service) moved(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += int64(n)
}

// Vanish ends a sandbox as if its machine had failed.
func (s *Service) Vanish(id string) {
	s.mu.Lock()
	b := s.sandboxes[id]
	delete(s.sandboxes, id)
	s.mu.Unlock()
	if b != nil {
		b.end(pb.GenericResult_GENERIC_STATUS_INTERNAL_FAILURE, 0)
	}
}

func (s *Service) id(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return fmt.Sprintf("%s-%026d", prefix, s.next)
}

// admit counts a call, checks its token and fields, and returns the fault that is set for it.
func (s *Service) admit(ctx context.Context, method string, request any) error {
	name := method[lastSlash(method)+1:]
	s.mu.Lock()
	s.calls[name]++
	fail := s.faults.Fail
	s.mu.Unlock()
	header, _ := metadata.FromIncomingContext(ctx)
	is := func(key, want string) bool { // the client repeats some
		got := header.Get(key)
		return len(got) > 0 && !slices.ContainsFunc(got, func(value string) bool { return value != want })
	}
	router := method[:lastSlash(method)] == "/modal.task_command_router.TaskCommandRouter"
	switch {
	case router && !is("authorization", "Bearer "+jwt()),
		!router && (!is("x-modal-token-id", TokenID) || !is("x-modal-token-secret", TokenSecret)),
		!router && name != "AuthTokenGet" && name != "ImageJoinStreaming" && !is("x-modal-auth-token", jwt()):
		return status.Error(codes.Unauthenticated, "Token validation failed")
	}
	if fail != nil {
		if err := fail(name); err != nil {
			return err
		}
	}
	if m, ok := request.(proto.Message); ok {
		return strict(m.ProtoReflect())
	}
	return nil
}

func lastSlash(method string) int {
	for i := len(method) - 1; ; i-- {
		if method[i] == '/' {
			return i
		}
	}
}

func (s *Service) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx, info.FullMethod, request); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

func (s *Service) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := s.admit(stream.Context(), info.FullMethod, nil); err != nil {
		return err
	}
	return handle(server, &strictStream{stream})
}

type strictStream struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (s *strictStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return strict(m.(proto.Message).ProtoReflect())
}

// heeded are the fields that the service heeds, by message. Others must not be set.
var heeded = map[protoreflect.Name][]protoreflect.Name{
	"AuthTokenGetRequest":                  {},
	"AppGetOrCreateRequest":                {"app_name", "environment_name", "object_creation_type"},
	"EnvironmentGetOrCreateRequest":        {"deployment_name", "object_creation_type"},
	"ImageGetOrCreateRequest":              {"app_id", "image", "builder_version", "force_build"},
	"Image":                                {"dockerfile_commands", "base_images"},
	"BaseImage":                            {"docker_tag", "image_id"},
	"ImageJoinStreamingRequest":            {"image_id", "timeout", "last_entry_id"},
	"SandboxCreateV2Request":               {"app_id", "definition", "tags"},
	"SandboxCreateRequest":                 {"app_id", "definition", "tags"},
	"SandboxTag":                           {"tag_name", "tag_value"},
	"Sandbox":                              {"entrypoint_args", "image_id", "resources", "timeout_secs", "workdir", "network_access", "open_ports", "scheduler_placement", "verbose", "name"},
	"Resources":                            {"memory_mb", "memory_mb_max", "milli_cpu", "milli_cpu_max", "gpu_config"},
	"GPUConfig":                            {"count", "gpu_type"},
	"NetworkAccess":                        {"network_access_type", "allowed_cidrs", "allowed_domains"},
	"SchedulerPlacement":                   {"regions"},
	"PortSpecs":                            {},
	"SandboxWaitRequest":                   {"sandbox_id", "timeout"},
	"SandboxTerminateRequest":              {"sandbox_id"},
	"SandboxListRequest":                   {"app_id", "before_timestamp", "environment_name", "tags"},
	"SandboxTagsGetRequest":                {"sandbox_id"},
	"SandboxTagsSetRequest":                {"environment_name", "sandbox_id", "tags"},
	"SandboxGetTaskIdRequest":              {"sandbox_id"},
	"SandboxGetCommandRouterAccessRequest": {"sandbox_id"},
	"TaskGetCommandRouterAccessRequest":    {"task_id"},
	"TaskExecStartRequest":                 {"task_id", "exec_id", "command_args", "stdout_config", "stderr_config", "workdir"},
	"TaskExecStdioReadRequest":             {"task_id", "exec_id", "offset", "file_descriptor"},
	"TaskExecWaitRequest":                  {"task_id", "exec_id"},
	"TaskExecStdinWriteRequest":            {"task_id", "exec_id", "offset", "data", "eof"},
	"TaskSetNetworkAccessRequest":          {"task_id", "network_access"},
}

// strict refuses messages with fields that the protocol does not have or the service does not heed.
func strict(m protoreflect.Message) error {
	name := m.Descriptor().Name()
	known, ok := heeded[name]
	if !ok || len(m.GetUnknown()) > 0 {
		return status.Errorf(codes.InvalidArgument, "the service knows no %s, or not all of its fields", name)
	}
	var failure error
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		found := false
		for _, k := range known {
			found = found || k == field.Name()
		}
		if !found {
			failure = status.Errorf(codes.InvalidArgument, "the service does not heed %s.%s", name, field.Name())
			return false
		}
		if field.Message() == nil || field.IsMap() {
			return true
		}
		if !field.IsList() {
			failure = strict(value.Message())
			return failure == nil
		}
		for i := range value.List().Len() {
			if failure = strict(value.List().Get(i).Message()); failure != nil {
				return false
			}
		}
		return true
	})
	return failure
}

// jwt returns a token that is valid for a day.
func jwt() string { return token() }

var token = sync.OnceValue(func() string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"exp":%d}`, time.Now().Add(24*time.Hour).Unix())) + "." + part([]byte(routerToken))
})

// AuthTokenGet implements Modal's API.
func (s *Service) AuthTokenGet(context.Context, *pb.AuthTokenGetRequest) (*pb.AuthTokenGetResponse, error) {
	return pb.AuthTokenGetResponse_builder{Token: jwt()}.Build(), nil
}

// AppGetOrCreate implements Modal's API.
func (s *Service) AppGetOrCreate(_ context.Context, r *pb.AppGetOrCreateRequest) (*pb.AppGetOrCreateResponse, error) {
	s.mu.Lock()
	id, ok := s.apps[r.GetAppName()]
	s.mu.Unlock()
	if !ok && r.GetObjectCreationType() != pb.ObjectCreationType_OBJECT_CREATION_TYPE_CREATE_IF_MISSING {
		return nil, status.Errorf(codes.NotFound, "App '%s' not found", r.GetAppName())
	}
	if !ok {
		id = s.id("ap")
		s.mu.Lock()
		s.apps[r.GetAppName()] = id
		s.mu.Unlock()
	}
	return pb.AppGetOrCreateResponse_builder{AppId: id}.Build(), nil
}

// EnvironmentGetOrCreate implements Modal's API.
func (s *Service) EnvironmentGetOrCreate(_ context.Context, r *pb.EnvironmentGetOrCreateRequest) (*pb.EnvironmentGetOrCreateResponse, error) {
	settings := pb.EnvironmentSettings_builder{ImageBuilderVersion: "2025.06"}.Build()
	return pb.EnvironmentGetOrCreateResponse_builder{EnvironmentId: "en-1", Metadata: pb.EnvironmentMetadata_builder{Name: r.GetDeploymentName(), Settings: settings}.Build()}.Build(), nil
}

var errGone = errors.New("it has ended")
