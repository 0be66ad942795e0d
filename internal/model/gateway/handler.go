package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/coding"
	"github.com/org/rollout-action/internal/model/inspect"
)

// maxBody bounds a request's body, decoded, and maxHeld the bodies of all requests of a session
// that run. Conversations with pictures have some tens of megabytes.
const (
	maxBody = 256 << 20
	maxHeld = 512 << 20
)

var discardLog = log.New(io.Discard, "", 0)

// patient extends the write deadline as long as the client reads the answer: a client that reads
// nothing must not keep a place in the queue for ever.
type patient struct {
	http.ResponseWriter
	connection *http.ResponseController

	mu    sync.Mutex
	until time.Time
	ended bool
}

func newPatient(w http.ResponseWriter) *patient {
	p := &patient{ResponseWriter: w, connection: http.NewResponseController(w)}
	p.wait()                                                   // the connection may have the deadline of an answer before
	_ = p.connection.SetReadDeadline(time.Now().Add(bodyTime)) // every connection of a listener has deadlines
	return p
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patient) Write(text []byte) (int, error) {
	p.wait()
	return p.ResponseWriter.Write(text)
}

// FlushError is for http.ResponseController.
func (p *patient) FlushError() error {
	p.wait()
	return p.connection.Flush()
}

// wait extends the deadline for the next write.
func (p *patient) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !p.ended && p.until.Sub(now) < writeTime/2 {
		p.until = now.Add(writeTime)
		_ = p.connection.SetWriteDeadline(p.until) // every connection of a listener has deadlines
	}
}

// cut ends writing, including a Write that waits for the client.
func (p *patient) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = p.connection.SetWriteDeadline(time.Unix(1, 0)) // as above
}

// serveHTTP answers one request of the agent.
func (s *Session) serveHTTP(to http.ResponseWriter, r *http.Request) {
	w := newPatient(to)
	p := s.opts.Model.protocolOf(r)
	path := r.URL.EscapedPath()
	switch {
	case r.Method == http.MethodHead && (path == "/" || path == "/api/hello"): // clients check whether the server is there
		w.WriteHeader(http.StatusOK)
		return
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		// codex then uses HTTP at once; other refusals cost it seven attempts.
		w.Header().Set("Connection", "close")
		s.refuse(w, r, http.StatusUpgradeRequired, "no_websocket", "this gateway speaks HTTP only")
		return
	}
	if !s.admits(tokenOf(r)) {
		s.strange()
		s.refuse(w, r, http.StatusUnauthorized, "invalid_token", "this is not the key of this trial: it is in ROLLOUT_MODEL_KEY")
		return
	}
	switch p.Route(r.Method, path) {
	case model.RouteTurn:
		s.turn(w, r, path)
	case model.RouteCount:
		s.count(w, r, path)
	case model.RouteList:
		s.list(w)
	default:
		if kind, message := api.Refuses(r.Method, path); kind != "" {
			s.refuse(w, r, http.StatusNotFound, kind, message)
			return
		}
		for _, other := range api.All {
			if other.Route(r.Method, path) == model.RouteTurn {
				s.foreign(path)
				s.refuse(w, r, http.StatusNotFound, "other_protocol", fmt.Sprintf("%s %s is of the API %s, but the model %s has the API %s", r.Method, path, other.Facts().Name, s.opts.Model.Name, s.opts.Model.API))
				return
			}
		}
		s.refuse(w, r, http.StatusNotFound, "not_found", r.Method+" "+path+" is not a part of the API "+string(s.opts.Model.API)+" that this gateway has")
	}
}

// tokenOf returns the key of a request, from any of the places that clients use.
func tokenOf(r *http.Request) string {
	bearer := r.Header.Get("Authorization")
	if scheme, key, ok := strings.Cut(bearer, " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(key)
	}
	for _, name := range api.KeyHeaders() {
		if key := r.Header.Get(name); key != "" && name != "Authorization" {
			return key
		}
	}
	return r.URL.Query().Get("key")
}

// refuse answers with an error in the protocol's format.
func (s *Session) refuse(w http.ResponseWriter, r *http.Request, code int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(s.opts.Model.protocolOf(r).Failure(code, kind, message)) //nolint:gosec // it is JSON for the agent, never HTML
}

// stopped refuses a turn because a budget is used up, so that clients give up at once.
func (s *Session) stopped(w http.ResponseWriter, r *http.Request, stop model.Stop) {
	w.Header().Set("X-Should-Retry", "false")
	s.refuse(w, r, s.opts.Model.protocolOf(r).Facts().RefusalCode, "budget_exceeded", "rollout stopped: "+string(stop))
}

func (s *Session) sealedAnswer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Should-Retry", "false")
	s.refuse(w, r, http.StatusConflict, "trial_ended", errSealed.Error())
}

var (
	errBodyLong = errors.New("the request's body is too long")
	errBodies   = errors.New("the bodies of the requests that run at the same time are too long")
)

// holding is a reader of a body that counts its bytes as held by the session until it is released.
type holding struct {
	io.Reader
	s *Session
	n int64
}

func (h *holding) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.n += int64(n)
	all := h.s.held.Add(int64(n))
	switch {
	case h.n > maxBody:
		err = errBodyLong
	case all > h.s.maxHeld:
		err = errBodies
	}
	return n, err
}

// readBody reads the body of a request for the model. If it fails, it answers the request and
// returns false. The caller calls release, in any case, when it no longer needs the body.
func (s *Session) readBody(w *patient, r *http.Request) (text []byte, release func(), ok bool) {
	h := &holding{s: s}
	release = func() { s.held.Add(-h.n) }
	from, err := coding.NewReader(r.Body, strings.Join(r.Header.Values("Content-Encoding"), ","))
	if err == nil {
		h.Reader = from
		text, err = io.ReadAll(h)
		from.Close()
	}
	if err == nil {
		_ = w.connection.SetReadDeadline(time.Time{}) // as above
	}
	switch {
	case errors.Is(err, errBodyLong):
		s.refuse(w, r, http.StatusRequestEntityTooLarge, "request_too_large", "the request has more than 256 MiB")
	case errors.Is(err, errBodies):
		s.refuse(w, r, http.StatusServiceUnavailable, "requests_too_large", "the requests that run at the same time have more than 512 MiB")
	case err != nil:
		s.refuse(w, r, http.StatusBadRequest, "invalid_body", "the request's body cannot be read: "+err.Error())
	case !inspect.Valid(text) || !gjson.ParseBytes(text).IsObject():
		s.refuse(w, r, http.StatusBadRequest, "invalid_json", "the request's body is not a JSON object")
	default:
		return text, release, true
	}
	return nil, release, false
}

// list answers with a list of the one model.
func (s *Session) list(w http.ResponseWriter) {
	name := s.opts.Model.Upstream
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(api.OrCommon(s.opts.Model.API).Facts().List(name)) // fails if the client is gone
}

// dropped are the headers that are not passed on, besides those of api.KeyHeaders: credentials, and
// those that concern one connection only.
var dropped = map[string]bool{
	"Authorization": true, "Api-Key": true, "Cookie": true, "Proxy-Authorization": true,
	"Host": true, "Content-Length": true, "Content-Encoding": true, "Accept-Encoding": true, "Connection": true, "Keep-Alive": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Expect": true, "Forwarded": true,
}

// accounts are words in headers that name an account or carry its credential, which only the job
// sets: Openai-Organization, X-Goog-User-Project.
var accounts = map[string]bool{
	"Account": true, "Organization": true, "Organisation": true, "Org": true, "Project": true, "Workspace": true, "Tenant": true, "Subscription": true,
	"Team": true, "Billing": true, "Profile": true, "Auth": true, "Authorization": true, "Authentication": true, "Token": true, "Secret": true, "Credential": true,
	"Credentials": true, "Apikey": true, "Password": true, "Cookie": true, "Security": true,
}

// routers are the prefixes of headers that tell proxies of models where a request goes and whose it
// is, and the suffixes of headers with keys.
var (
	routers = []string{"X-Portkey-", "Helicone-", "Cf-Aig-", "X-Litellm-", "X-Bf-", "X-Bt-", "X-Tfy-", "X-Amz-", "X-Ms-", "Azureml-", "X-Goog-", "X-Forwarded-", "X-Original-", "X-Rewrite-", "X-Http-Method"}
	keys    = []string{"-Api-Key", "-Subscription-Key", "-Functions-Key", "-Access-Key", "-Virtual-Key", "-Method-Override"}
)

// isJobs reports whether a header of the agent is dropped, because only the job decides on the
// account and the destination of a request.
func isJobs(name string) bool {
	if name == "X-Goog-Api-Client" { // which client asks
		return false
	}
	for word := range strings.SplitSeq(name, "-") {
		if accounts[word] {
			return true
		}
	}
	return slices.ContainsFunc(routers, func(begin string) bool { return strings.HasPrefix(name, begin) }) ||
		slices.ContainsFunc(keys, func(end string) bool { return strings.HasSuffix(name, end) })
}

// request returns the request to the provider.
func (m *Model) request(ctx context.Context, from *http.Request, path string, text *upload) (*http.Request, error) {
	size := int64(len(*text.text.Load()))
	body, err := text.body()
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	for name, values := range from.URL.Query() {
		switch strings.ToLower(name) {
		case "key", "model", "api_key", "access_token": // litellm takes a model there for the request's own
		default:
			query[name] = values
		}
	}
	r, err := http.NewRequestWithContext(ctx, from.Method, m.url(path, query).String(), body) //nolint:gosec // the host is the configuration's; the agent chooses query and body
	if err != nil {
		return nil, err
	}
	r.ContentLength, r.GetBody = size, text.body
	connection := map[string]bool{}
	for _, list := range from.Header.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			connection[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range from.Header {
		if !dropped[name] && !slices.Contains(api.KeyHeaders(), name) && !connection[name] && !isJobs(name) {
			r.Header[name] = values
		}
	}
	r.Header.Set("Accept-Encoding", "identity") // events are read as they pass
	if m.Key != "" {
		api.Authorise(m.protocolOf(from), r, m.Key)
	}
	for name, value := range m.Headers {
		r.Header.Set(name, value)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header["User-Agent"] = []string{""} // not Go's own
	}
	return r, nil
}

// admitted returns the path and the body of a request as the provider gets them, and the removed
// parts. The error is the reason for refusing the request.
func (s *Session) admitted(p api.Protocol, path string, text []byte, m *Model) (at string, body []byte, found inspect.Found, err error) {
	body, found, err = inspect.Request(text, p.Rules(), s.opts.Restricted)
	if err == nil {
		at, body, err = p.Prepare(path, body, m.upstream())
	}
	if err == nil { // a key in another case than the one that was set is the same for some servers
		err = inspect.Unique(body)
	}
	return at, body, found, err
}

// count passes on a request to count tokens. It is not a turn, and its failure is not counted as
// the model's.
func (s *Session) count(w *patient, r *http.Request, path string) {
	text, release, ok := s.readBody(w, r)
	defer release()
	if !ok {
		return
	}
	s.mu.Lock()
	sealed := s.sealed
	s.mu.Unlock()
	if sealed {
		s.sealedAnswer(w, r)
		return
	}
	m := s.opts.Model
	// Set only the model's name: counts have no sampling.
	bare := *m
	bare.Config.Sampling = nil
	at, text, found, err := s.admitted(m.protocolOf(r), path, text, &bare)
	s.removed(found.Web, found.Models)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, "invalid_request", "the gateway does not pass the request on: "+err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	request, err := m.request(s.calling(ctx, m.protocolOf(r), model.ActionCount), r, at, newUpload(text))
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	answer, err := m.client.Do(request) //nolint:gosec // as above
	if err != nil {
		s.refuse(w, r, http.StatusBadGateway, "model_unreachable", "the provider of the model does not answer")
		return
	}
	defer answer.Body.Close()
	counted, _ := io.ReadAll(io.LimitReader(answer.Body, maxError)) // a partial body is passed on
	m.header(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write([]byte(m.hide(string(counted)))) // fails if the client is gone
}

// copyHeader copies the headers of an answer.
func copyHeader(to, from http.Header) {
	for name, values := range from {
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Set-Cookie", "Trailer", "Upgrade", "Alt-Svc":
		default:
			to[name] = values
		}
	}
}
