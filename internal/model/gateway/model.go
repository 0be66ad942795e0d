package gateway

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/coding"
	"github.com/org/rollout-action/internal/model/meter"
)

// Config describes a model.
type Config struct {
	Name     string // in the job file
	API      model.API
	Upstream string // the provider's name of the model, which replaces the one in the agent's requests
	BaseURL  string // "": the API's own
	Key      string // "": none is sent
	Headers  map[string]string
	Sampling map[string]any // imposed on every request
	// MaxConcurrent bounds the requests at one time; 0: no bound.
	MaxConcurrent int
	// Cost returns the cost of an answer in US dollars; nil if it is not known. at is the time of
	// the request.
	Cost func(answered string, at time.Time, u model.Usage) *float64
	// Unpriced reports whether a part of an answer's usage has no price, so that Cost is a lower
	// bound; nil: web searches have none.
	Unpriced func(answered string, at time.Time, u model.Usage) bool
	// Hide returns a text without secrets, such as those in Headers; nil: only Key is hidden.
	Hide func(string) string
	// Record selects the recorded contents of calls; "" is model.RecordMessages.
	Record model.Record
	// Tokens: ids and log probabilities of tokens are asked for and recorded. Only some APIs have
	// them (model.Facts).
	Tokens bool
	// Transport carries requests; nil: over the network.
	Transport http.RoundTripper
}

// Model is a model that sessions share. It holds the connections, and the queue for the rate
// limits. It is safe for concurrent use.
type Model struct {
	Config
	protocol api.Protocol // nil: that of each request
	base     *url.URL
	// versioned: base ends in a version, which replaces the protocol's.
	versioned bool
	client    *http.Client
	queue     *queue
	scale     *meter.Scale
}

var version = regexp.MustCompile(`/v[0-9]+(alpha|beta)?[0-9]*/?$`)

// connectTime bounds connecting to the provider. Answers may take any time: the trial's own timeout
// ends them.
const connectTime = 15 * time.Second

// New returns a model. It fails if the configuration has an unknown API or an invalid URL.
func New(c Config) (*Model, error) {
	p := api.Named(c.API)
	if p == nil && c.API != model.Scripted {
		return nil, &ConfigError{Key: "api", Reason: "is unknown"}
	}
	text := c.BaseURL
	if text == "" {
		text = cmp.Or(api.BaseURL(c.API), "http://scripted.invalid")
	}
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.RawQuery != "" || base.User != nil {
		return nil, &ConfigError{Key: "base_url", Reason: "is not a URL like https://host/path"}
	}
	base.Path = trimSlash(base.Path)
	if c.Transport == nil {
		c.Transport = NewTransport()
	}
	return &Model{
		Config: c, protocol: p, base: base, versioned: version.MatchString(base.Path), queue: newQueue(c.MaxConcurrent), scale: &meter.Scale{},
		client: &http.Client{Transport: coding.Transport{Next: c.Transport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// NewTransport returns the transport for requests over the network. It decodes answers that are
// compressed although the request did not ask for that.
func NewTransport() http.RoundTripper {
	return coding.Transport{Next: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTime}).DialContext, TLSHandshakeTimeout: connectTime,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 128, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true,
	}}
}

// protocolOf returns the protocol in which a request is answered.
func (m *Model) protocolOf(r *http.Request) api.Protocol {
	if m.protocol != nil {
		return m.protocol
	}
	if p, action := api.Of(r.URL.EscapedPath()); action != "" {
		return p
	}
	return api.Common
}

// upstream returns the model as protocols name it in requests.
func (m *Model) upstream() model.Upstream {
	return model.Upstream{Name: m.Upstream, Sampling: m.Sampling, Tokens: m.Tokens}
}

// ConfigError is the error of an invalid Config.
type ConfigError struct {
	Key    string // "base_url"
	Reason string // to follow the key
}

func (e *ConfigError) Error() string { return e.Key + " " + e.Reason }

// hide removes secrets from a text.
func (m *Model) hide(text string) string {
	if m.Key != "" {
		text = strings.ReplaceAll(text, m.Key, "***")
	}
	if m.Hide != nil {
		text = m.Hide(text)
	}
	return text
}

// hideKey masks the key in text of a provider: a provider that repeats requests must not reveal it
// to agents.
func (m *Model) hideKey(text []byte) []byte {
	if m.Key == "" || !bytes.Contains(text, []byte(m.Key)) {
		return text
	}
	return bytes.ReplaceAll(text, []byte(m.Key), []byte("***"))
}

// header passes on the headers of an answer, without secrets.
func (m *Model) header(to, from http.Header) {
	copyHeader(to, from)
	for name, values := range to {
		to[name] = slices.Clone(values)
		for i := range values {
			to[name][i] = m.hide(values[i])
		}
	}
}

// ThirdParty reports whether the model's server is not that of its API's author, and so may lack
// parts of the API.
func (m *Model) ThirdParty() bool {
	return m.API != model.Scripted && "https://"+m.base.Host != api.BaseURL(m.API)
}

// Close closes connections that are idle.
func (m *Model) Close() { m.client.CloseIdleConnections() }

// url returns the upstream's URL of a path that begins with the protocol's version.
func (m *Model) url(path string, query url.Values) *url.URL {
	u := *m.base
	if m.versioned {
		path = version.ReplaceAllString(path[:versionEnd(path)], "") + path[versionEnd(path):]
	}
	u.Path, u.RawPath = m.base.Path+path, ""
	u.RawQuery = query.Encode()
	return &u
}

// versionEnd returns the end of the version at the beginning of a path.
func versionEnd(path string) int {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return i
		}
	}
	return len(path)
}

func trimSlash(path string) string {
	for len(path) > 0 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	return path
}
