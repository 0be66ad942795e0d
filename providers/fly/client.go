package fly

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/hosted"
)

const (
	// requestTime bounds one request: a wait takes 60 s at most.
	requestTime = 90 * time.Second
	// maxResponse bounds the body of a response.
	maxResponse = 16 << 20
	// attempts is how often a request is sent that the service refuses for its rate, or that may be
	// sent again.
	attempts = 6
	// maxRetryAfter bounds how long one Retry-After is waited for.
	maxRetryAfter = 2 * time.Minute
)

// client sends requests to the Machines API.
type client struct {
	base  string
	token string
	http  *http.Client
}

// apiError is a response that reports a failure.
type apiError struct {
	status  int
	message string
	after   time.Duration // of Retry-After; 0: there was none
}

func (e *apiError) Error() string {
	return fmt.Sprintf("Fly: %s (status %d)", e.message, e.status)
}

// statusOf returns the status of a failure that the service reported, or 0.
func statusOf(err error) int {
	failure := new(apiError)
	if errors.As(err, &failure) {
		return failure.status
	}
	return 0
}

// isGone reports whether an error says that the object does not exist.
func isGone(err error) bool { return statusOf(err) == http.StatusNotFound }

// unsure reports whether a request that failed may have had its effect.
func unsure(err error) bool {
	status := statusOf(err)
	return status == 0 || status == http.StatusRequestTimeout || status >= 500
}

// call sends a request until it has an answer, if it is safe to send it again, and obeys the limits
// of rate: a request that was refused for them had no effect.
func (c *client) call(ctx context.Context, repeat bool, method, path string, in, out any) error {
	pause := 500 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := c.once(ctx, method, path, in, out)
		if err == nil || ctx.Err() != nil || attempt == attempts {
			return err
		}
		wait := pause
		failure := new(apiError)
		switch {
		case errors.As(err, &failure) && failure.status == http.StatusTooManyRequests:
			wait = max(wait, min(failure.after, maxRetryAfter))
		case !repeat || !unsure(err):
			return err
		}
		if !awake.Sleep(ctx, wait) {
			return err
		}
		pause = min(2*pause, 8*time.Second)
	}
}

// once sends a request.
func (c *client) once(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var body io.Reader
	if in != nil {
		content, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+"/v1"+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if response.StatusCode/100 != 2 {
		return c.failure(response, content)
	}
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(content, out); err != nil {
		return fmt.Errorf("read the response to %s %s: %w", method, path, err)
	}
	return nil
}

// failure returns the error of a response. The message is the service's, without the token.
func (c *client) failure(response *http.Response, content []byte) error {
	var said struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	if json.Unmarshal(content, &said) != nil {
		said.Error = string(content)
	}
	text := cmp.Or(said.Error, said.Message, response.Status)
	e := &apiError{status: response.StatusCode, message: hosted.OneLine(strings.ReplaceAll(text, c.token, "***"))}
	after := response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil {
		e.after = time.Duration(max(0, seconds)) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.after = time.Until(at)
	}
	return e
}

func appPath(name string) string { return "/apps/" + url.PathEscape(name) }

func machinePath(app, id string) string { return appPath(app) + "/machines/" + url.PathEscape(id) }

func (c *client) createApp(ctx context.Context, name, org string) error {
	return c.call(ctx, false, http.MethodPost, "/apps", createAppRequest{AppName: name, OrgSlug: org}, nil)
}

// seesApp returns an error if the app does not exist, or the token does not see it.
func (c *client) seesApp(ctx context.Context, name string) error {
	return c.call(ctx, true, http.MethodGet, appPath(name), nil, nil)
}

func (c *client) deleteApp(ctx context.Context, name string) error {
	return c.call(ctx, true, http.MethodDelete, appPath(name), nil, nil)
}

func (c *client) apps(ctx context.Context, org string) ([]app, error) {
	var list listAppsResponse
	err := c.call(ctx, true, http.MethodGet, "/apps?org_slug="+url.QueryEscape(org), nil, &list)
	return list.Apps, err
}

// createMachine sends the request once: the caller knows whether to send it again.
func (c *client) createMachine(ctx context.Context, app string, r createMachineRequest) (machine, error) {
	var m machine
	err := c.call(ctx, false, http.MethodPost, appPath(app)+"/machines", r, &m)
	return m, err
}

func (c *client) machine(ctx context.Context, app, id string) (machine, error) {
	var m machine
	err := c.call(ctx, true, http.MethodGet, machinePath(app, id), nil, &m)
	return m, err
}

// machines lists the machines of an app that Rollout made.
func (c *client) machines(ctx context.Context, app string) ([]machine, error) {
	var list []machine
	err := c.call(ctx, true, http.MethodGet, appPath(app)+"/machines?metadata."+hosted.TagOurs+"=1", nil, &list)
	return list, err
}

// wait waits until a machine has started, or as long as the service lets it.
func (c *client) wait(ctx context.Context, app string, m machine) error {
	const most = 60 // seconds
	query := url.Values{"state": {stateStarted}, "instance_id": {m.InstanceID}, "timeout": {strconv.Itoa(most)}}
	return c.once(ctx, http.MethodGet, machinePath(app, m.ID)+"/wait?"+query.Encode(), nil, nil)
}

func (c *client) deleteMachine(ctx context.Context, app, id string) error {
	return c.call(ctx, true, http.MethodDelete, machinePath(app, id)+"?force=true", nil, nil)
}

// exec runs a command, which may run again if repeat is set.
func (c *client) exec(ctx context.Context, app, id string, repeat bool, r execRequest) (execResponse, error) {
	var out execResponse
	err := c.call(ctx, repeat, http.MethodPost, machinePath(app, id)+"/exec", r, &out)
	return out, err
}

func (c *client) setMetadata(ctx context.Context, app, id, key, value string) error {
	return c.call(ctx, true, http.MethodPost, machinePath(app, id)+"/metadata/"+url.PathEscape(key), metadataValue{value}, nil)
}

func (c *client) policies(ctx context.Context, app string) ([]networkPolicy, error) {
	var list []networkPolicy
	err := c.call(ctx, true, http.MethodGet, appPath(app)+"/network_policies", nil, &list)
	return list, err
}

func (c *client) createPolicy(ctx context.Context, app string, p networkPolicy) error {
	return c.call(ctx, false, http.MethodPost, appPath(app)+"/network_policies", p, nil)
}
