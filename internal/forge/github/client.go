package github

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	gh "github.com/google/go-github/v66/github"
)

const (
	// DefaultAPI is the API of github.com. An enterprise server has https://HOST/api/v3.
	DefaultAPI = "https://api.github.com"

	userAgent = "rollout-action"
	perPage   = 100 // GitHub's maximum
)

// Client uses one API with one token. It waits if GitHub's rate limits require it, for a few
// minutes in total, and retries transient failures. It is safe for concurrent use.
type Client struct {
	api   *gh.Client
	token string
	// storage fetches artifacts from the host that the API redirects to, which must not get the
	// token.
	storage *http.Client
	graphql string
	now     func() time.Time
	sleep   func(context.Context, time.Duration) error
	settle  time.Duration
	limits  limits

	mu   sync.Mutex
	self string // the login of our comments; "" if not known yet
}

// Options replace a client's connections to the outside. Zero fields have the usual values.
type Options struct {
	Transport http.RoundTripper
	Now       func() time.Time
	Sleep     func(context.Context, time.Duration) error
	// MaxWait is the maximum total time that the client waits for GitHub; 0 means five minutes.
	MaxWait time.Duration
	// Settle is the delay between writing a comment and checking for those of other runs; 0 means
	// one second.
	Settle time.Duration
}

// New returns a client for the API at apiURL (GITHUB_API_URL; "" is github.com's). Without a token
// it can only read public data.
func New(token, apiURL string) (*Client, error) { return NewWith(token, apiURL, Options{}) }

// NewWith is New with options.
func NewWith(token, apiURL string, o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(cmp.Or(apiURL, DefaultAPI), "/") + "/")
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("the URL of GitHub's API is not an http(s) URL: %q", apiURL)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Transport == nil {
		o.Transport = defaultTransport()
	}
	c := &Client{
		token:   strings.TrimSpace(token),
		storage: &http.Client{Transport: o.Transport, CheckRedirect: fewRedirects},
		graphql: graphqlURL(base),
		now:     o.Now,
		sleep:   o.Sleep,
		settle:  cmp.Or(o.Settle, time.Second),
		limits:  usualLimits,
	}
	c.api = gh.NewClient(&http.Client{Transport: &transport{
		base: o.Transport, api: base, token: c.token, now: o.Now, sleep: o.Sleep, jitter: upTo,
		maxWait: cmp.Or(o.MaxWait, 5*time.Minute),
	}, CheckRedirect: fewRedirects})
	c.api.BaseURL = base // go-github's option for enterprise servers would append /api/v3 again
	c.api.UserAgent = userAgent
	return c, nil
}

// graphqlURL returns the GraphQL URL for a REST URL. Source: docs.github.com, GITHUB_GRAPHQL_URL.
func graphqlURL(base *url.URL) string {
	u := *base
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v3") + "/graphql"
	return u.String()
}

func defaultTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		ForceAttemptHTTP2:     true,
	}
}

// fewRedirects allows the redirects of renamed repositories and storage services.
func fewRedirects(_ *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return fmt.Errorf("stopped after %d redirects", len(via))
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// upTo returns a random duration below d, so shards that failed together do not retry together.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// repository matches owner/name as GitHub allows them; they become part of URLs.
var repository = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`)

// split splits "owner/name".
func split(repo string) (owner, name string, err error) {
	owner, name, _ = strings.Cut(repo, "/")
	// "." and ".." would change the URL's path.
	if !repository.MatchString(repo) || strings.Trim(owner, ".") == "" || strings.Trim(name, ".") == "" {
		return "", "", fmt.Errorf("%q is not a repository, which is named owner/name", repo)
	}
	return owner, name, nil
}
