package flytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// Token is the token that the service accepts, and Org the organization that it belongs to.
const (
	Token = "FlyV1 fm2_secret-of-a-test"
	Org   = "personal"
)

// Faults make the service fail.
type Faults struct {
	// Fail, if not nil, is called before each request with its method and the last name of its
	// path, such as "POST exec". It returns a status, or 0 for none.
	Fail func(request string) int
	// RetryAfter is the header of failures, in seconds; 0: there is none.
	RetryAfter int
	// Lose, if not nil, is called after each request was served, as Fail is. If it returns true,
	// the connection breaks in the middle of the response.
	Lose func(request string) bool
	// ExecLimit is the time after which a command ends with status 408; 0: 30 s.
	ExecLimit time.Duration
	// Halve, if not nil, says whether a command's output is cut in half.
	Halve func() bool
	// Lag makes lists have machines that are gone.
	Lag bool
}

// Service is the Machines API.
type Service struct {
	runs   environment.Provider
	images *Images
	server *httptest.Server
	ctx    context.Context //nolint:containedctx // as long as the service
	stop   context.CancelFunc

	mu       sync.Mutex
	faults   Faults
	calls    map[string]int
	bytes    int64
	apps     map[string]*app
	machines map[string]*machine
	next     int
}

type app struct {
	policies []policy
	order    []string // machines
}

// Start starts a service that runs machines in environments of a provider.
func Start(runs environment.Provider, images *Images) *Service {
	s := &Service{runs: runs, images: images, calls: map[string]int{}, apps: map[string]*app{}, machines: map[string]*machine{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	for pattern, serve := range map[string]handler{
		"POST /v1/apps": s.createApp, "GET /v1/apps": s.listApps, "GET /v1/apps/{app}": s.getApp, "DELETE /v1/apps/{app}": s.deleteApp,
		"POST /v1/apps/{app}/machines": s.createMachine, "GET /v1/apps/{app}/machines": s.listMachines,
		"GET /v1/apps/{app}/machines/{id}": s.getMachine, "DELETE /v1/apps/{app}/machines/{id}": s.deleteMachine,
		"GET /v1/apps/{app}/machines/{id}/wait": s.waitMachine, "POST /v1/apps/{app}/machines/{id}/exec": s.exec,
		"POST /v1/apps/{app}/machines/{id}/metadata/{key}": s.setMetadata,
		"POST /v1/apps/{app}/network_policies":             s.createPolicy, "GET /v1/apps/{app}/network_policies": s.listPolicies,
	} {
		mux.HandleFunc(pattern, s.admit(pattern, serve))
	}
	s.server = httptest.NewServer(mux)
	return s
}

// Variables returns the environment variables with which clients find the service.
func (s *Service) Variables() map[string]string {
	return map[string]string{"FLY_API_HOSTNAME": s.server.URL, "FLY_API_TOKEN": Token}
}

// Close ends all machines, and returns when they have ended.
func (s *Service) Close() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.machines))
	s.mu.Unlock()
	for _, m := range all {
		m.end(0)
		<-m.gone
	}
	s.stop()
	s.server.CloseClientConnections()
	s.server.Close()
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

// Calls returns how often each request was made, and how many bytes went to and from commands.
func (s *Service) Calls() (calls map[string]int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls), s.bytes
}

// Apps returns the names of the apps.
func (s *Service) Apps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.apps))
}

// Vanish ends a machine, APP/ID, as if its host had failed.
func (s *Service) Vanish(id string) {
	_, name, _ := strings.Cut(id, "/")
	s.mu.Lock()
	m := s.machines[name]
	delete(s.machines, name)
	s.mu.Unlock()
	if m != nil {
		m.end(1)
	}
}

// refusal is an error with a status.
type refusal struct {
	status int
	why    string
}

func (r *refusal) Error() string { return r.why }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

var errNotFound = refuse(http.StatusNotFound, "not_found: the object does not exist")

// handler serves a request and returns the status and the body of the response; nil: it has none.
type handler func(r *http.Request) (int, any, error)

// admit counts a request, checks who makes it, and fails if it is to.
func (s *Service) admit(pattern string, serve handler) http.HandlerFunc {
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.TrimSuffix(strings.TrimSuffix(path, "/{key}"), "/{id}")
	request := method + " " + path[strings.LastIndex(path, "/")+1:]
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls[request]++
		faults := s.faults
		s.mu.Unlock()
		status, body, err := 0, any(nil), error(nil)
		switch {
		case r.Header.Get("Authorization") != "Bearer "+Token:
			err = refuse(http.StatusUnauthorized, "Authenticate: token validation error")
		case faults.Fail != nil:
			if failure := faults.Fail(request); failure != 0 {
				if faults.RetryAfter > 0 {
					w.Header().Set("Retry-After", strconv.Itoa(faults.RetryAfter))
				}
				err = refuse(failure, "a failure\x1b[31m of %s", r.Header.Get("Authorization"))
			}
		}
		if err == nil {
			status, body, err = serve(r)
		}
		if refused := new(refusal); errors.As(err, &refused) {
			status, body = refused.status, map[string]string{"error": refused.why}
		} else if err != nil {
			status, body = http.StatusInternalServerError, map[string]string{"error": err.Error()}
		}
		content := []byte{}
		if body != nil {
			content, _ = json.Marshal(body) // these have a form in JSON
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.WriteHeader(status)
		if faults.Lose != nil && faults.Lose(request) {
			_, _ = w.Write(content[:len(content)/2])
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(content) // the client may have gone
	}
}

// strict reads a request's body, which has only fields that the service heeds.
func strict(r *http.Request, into any) error {
	content, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "invalid_argument: %v", err)
	}
	return nil
}

// query returns the parameters of a request, which are among names; one that ends in a dot is a
// prefix.
func query(r *http.Request, names ...string) (url.Values, error) {
	values := r.URL.Query()
	for key := range values {
		known := slices.ContainsFunc(names, func(name string) bool {
			return key == name || strings.HasSuffix(name, ".") && strings.HasPrefix(key, name)
		})
		if !known {
			return nil, refuse(http.StatusBadRequest, "invalid_argument: the service does not heed the parameter %s", key)
		}
	}
	return values, nil
}

// app returns the app that a request names. The lock is held.
func (s *Service) app(r *http.Request) (*app, error) {
	if a := s.apps[r.PathValue("app")]; a != nil {
		return a, nil
	}
	return nil, refuse(http.StatusNotFound, "app not found")
}

func (s *Service) createApp(r *http.Request) (int, any, error) {
	var in struct {
		AppName string `json:"app_name"`
		OrgSlug string `json:"org_slug"`
	}
	if err := strict(r, &in); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case in.OrgSlug != Org:
		return 0, nil, refuse(http.StatusNotFound, "organization not found")
	case in.AppName == "" || s.apps[in.AppName] != nil:
		return 0, nil, refuse(http.StatusUnprocessableEntity, "Validation failed: Name has already been taken")
	}
	s.apps[in.AppName] = &app{}
	return http.StatusCreated, map[string]any{"id": in.AppName, "created_at": time.Now().UnixMilli()}, nil
}

func (s *Service) listApps(r *http.Request) (int, any, error) {
	values, err := query(r, "org_slug")
	if err != nil {
		return 0, nil, err
	}
	if values.Get("org_slug") != Org {
		return 0, nil, refuse(http.StatusNotFound, "organization not found")
	}
	list := []map[string]any{}
	for _, name := range s.Apps() {
		list = append(list, map[string]any{"id": name, "name": name, "machine_count": 0, "network": "default"})
	}
	return http.StatusOK, map[string]any{"total_apps": len(list), "apps": list}, nil
}

func (s *Service) getApp(r *http.Request) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.app(r); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"name": r.PathValue("app"), "status": "pending", "organization": map[string]string{"slug": Org}}, nil
}

func (s *Service) deleteApp(r *http.Request) (int, any, error) {
	if _, err := query(r); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.app(r)
	if err != nil {
		return 0, nil, err
	}
	for _, id := range a.order {
		if m := s.machines[id]; m != nil && m.current() != destroyed {
			return 0, nil, refuse(http.StatusUnprocessableEntity, "the app has machines")
		}
	}
	delete(s.apps, r.PathValue("app"))
	return http.StatusAccepted, nil, nil
}

// policy is a network policy.
type policy struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Selector struct {
		Metadata map[string]string `json:"metadata"`
	} `json:"selector"`
	Rules []struct {
		Action    string `json:"action"`
		Direction string `json:"direction"`
		Ports     []struct {
			Protocol string `json:"protocol"`
			Port     int    `json:"port"`
		} `json:"ports"`
	} `json:"rules"`
}

func (s *Service) createPolicy(r *http.Request) (int, any, error) {
	var p policy
	if err := strict(r, &p); err != nil {
		return 0, nil, err
	}
	if p.Name == "" || len(p.Selector.Metadata) == 0 || len(p.Rules) != 1 || p.Rules[0].Action != "allow" || p.Rules[0].Direction != "egress" {
		return 0, nil, refuse(http.StatusBadRequest, "invalid_argument: the service knows no such policy")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.app(r)
	if err != nil {
		return 0, nil, err
	}
	s.next++
	p.ID = fmt.Sprintf("np%d", s.next)
	a.policies = append(a.policies, p)
	return http.StatusCreated, p, nil
}

func (s *Service) listPolicies(r *http.Request) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.app(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, slices.Clone(a.policies), nil
}
