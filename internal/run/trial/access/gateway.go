// Package access gives an agent access to its model within its budget, records its calls, and tells
// whether the agent or the model has failed.
package access

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/record"
)

// maxTrajectory limits the record of a trial's model calls, in bytes.
const maxTrajectory = 512 << 20

// Gateway is an agent's access to its model while its execute script runs.
type Gateway struct {
	session  *gateway.Session
	listener net.Listener // nil: no process in the environment uses it
	model    *gateway.Model
	agent    agent.Agent
	record   *record.Record
	dir      string // of the calls
	lines    *redacted
	env      map[string]string
}

// Options describe an agent and its access to a model.
type Options struct {
	Agent  agent.Agent
	Model  *gateway.Model // of the agent; nil: the job lacks it
	Budget agent.Budget   // of this run
	// Name is the name under which exchanges with the model are recorded.
	Name string
	// Reply keeps the replies of the model, as the verdict of a judge; see Report.
	Reply bool
	// Restricted removes tools from requests with which the model's provider would reach the
	// network.
	Restricted bool
	// Environment is where the agent runs. nil: it is a loop in this process, which uses Transport.
	Environment environment.Environment
	Provider    string // the name of the environment's provider
	// Record gets the warnings, the usage and the costs, and in its directory the calls.
	Record *record.Record
	// Calls is the record of the calls of all steps of a trial, to which those of Step are added;
	// nil: the calls are recorded in the directory of Record.
	Calls *Calls
	Step  string
	Purse gateway.Purse // what the job may spend; nil: it has no budget
	// Spend gets the cost of each turn, in US dollars. nil: it is not added up.
	Spend func(usd float64)
}

// Calls records the calls of the sessions of a trial whose task has steps, one after the other, in
// one file.
type Calls struct {
	Dir   string // of the file
	lines *redacted
	begin func(step string)
	keep  func(model.Turn) error

	mu       sync.Mutex
	sessions int
}

// session begins a session, and returns a function that keeps its turns. After the next session has
// begun, that function fails: a turn which was aborted may end late.
func (c *Calls) session(step string) func(model.Turn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions++
	own := c.sessions
	c.begin(step)
	return func(t model.Turn) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if own != c.sessions {
			return os.ErrClosed
		}
		return c.keep(t)
	}
}

// Open opens the gateway of an agent to its model.
func Open(ctx context.Context, o Options) (*Gateway, error) {
	m, name := o.Model, o.Agent.Model
	if m == nil {
		return nil, failure.Newf(result.GatewayFailed, "the model %q is not there", name)
	}
	var listener net.Listener
	var err error
	if o.Environment != nil {
		listener, err = environment.ListenLoopback(ctx, o.Environment)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, failure.Newf(result.GatewayFailed, "the provider %s cannot lead to a model: use docker or sandbox, or remove model from the agent", o.Provider)
	}
	if err != nil {
		return nil, o.failed(ctx, err)
	}
	lines, keep, err := o.recorder()
	if err != nil {
		if listener != nil {
			listener.Close()
		}
		return nil, o.failed(ctx, environment.MarkMachineError(err))
	}
	b := o.Budget
	g := &Gateway{listener: listener, model: m, agent: o.Agent, record: o.Record, dir: o.dir(), lines: lines}
	g.session = gateway.NewSession(gateway.Options{
		Model: m, Name: o.Name, Reply: o.Reply, Restricted: o.Restricted, Conversations: recordsMessages(m.Record), Keep: o.spending(keep), Purse: o.Purse,
		Budget: model.Budget{
			MaxTurns: int64(b.MaxTurns), MaxInputTokens: int64(b.MaxInputTokens), MaxOutputTokens: int64(b.MaxOutputTokens),
			MaxTotalTokens: int64(b.MaxTotalTokens), MaxCostUSD: b.MaxCostUSD,
		},
	})
	if listener == nil {
		return g, nil
	}
	go g.session.Serve(listener)
	g.env = api.Environment(g.API(), "http://"+listener.Addr().String(), g.session.Token(), m.Upstream)
	if m.ThirdParty() {
		g.env[presets.ThirdPartyVar] = "1"
	}
	return g, nil
}

func recordsMessages(r model.Record) bool { return r == "" || r == model.RecordMessages }

// dir returns the directory of the record of the calls.
func (o Options) dir() string {
	if o.Calls != nil {
		return o.Calls.Dir
	}
	return o.Record.Dir
}

// recorder opens the record of the trial's calls.
func (o Options) recorder() (*redacted, func(model.Turn) error, error) {
	calls := cmp.Or(o.Calls, &Calls{})
	name, kind := result.TrajectoryFile, o.Model.Record
	if kind == model.RecordNone {
		name = result.CallCostsFile
	}
	file, err := os.OpenFile(filepath.Join(o.dir(), name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case calls.lines != nil:
		calls.mu.Lock()
		calls.lines.file = file
		calls.mu.Unlock()
	case kind == model.RecordNone:
		calls.lines = &redacted{file: file, secrets: o.Record.Secrets}
		r := model.NewCostRecorder(calls.lines)
		calls.begin, calls.keep = r.Begin, r.Record
	default:
		calls.lines = &redacted{file: file, secrets: o.Record.Secrets}
		r := model.NewRecorder(calls.lines, maxTrajectory)
		calls.begin, calls.keep = r.Begin, r.Record
	}
	return calls.lines, calls.session(o.Step), nil
}

// failed returns the failure of an agent that could not get access to its model. The trial did
// not cause it, so it starts over.
func (o Options) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil || environment.KindOf(err) == environment.KindLost || environment.MachineFault(err) != nil {
		return err
	}
	f := failure.Newf(result.GatewayFailed, "the agent could not get access to the model %s: %s", o.Agent.Model, failure.Brief(err, o.Record.Secrets))
	f.Detail, f.Again = err.Error(), true
	return f
}

// spending returns a function that reports a turn's cost and then calls keep.
func (o Options) spending(keep func(model.Turn) error) func(model.Turn) error {
	return func(t model.Turn) error {
		if o.Spend != nil && t.Cost != nil {
			o.Spend(*t.Cost)
		}
		return keep(t)
	}
}

// API returns the protocol that the agent uses. A scripted model supports all, so a preset
// gets its own: the one with token ids, if they are recorded.
func (g *Gateway) API() model.API {
	m := g.model
	known, ok := presets.Get(g.agent.Preset)
	switch {
	case !ok || m.API != model.Scripted || len(known.APIs) == 0:
		return m.API
	case m.Tokens:
		for _, name := range api.WithTokens() {
			if slices.Contains(known.APIs, string(name)) {
				return name
			}
		}
	}
	return model.API(known.APIs[0])
}

// redacted is a writer that hides secrets. Each write is a whole line. Token ids stand for texts,
// and secrets cannot be hidden in them: those of the first turn with a secret are left out, and
// those of all later turns, whose prompts may repeat it.
type redacted struct {
	file    *os.File
	secrets *redact.Redactor
	found   bool // a secret was found
	dropped bool // token ids were left out
}

func (r *redacted) Write(line []byte) (int, error) {
	hidden := r.secrets.Bytes(line)
	if !bytes.Equal(hidden, line) {
		r.found = true
	}
	if r.found {
		if bare := model.WithoutTokens(line); len(bare) != len(line) {
			hidden = r.secrets.Bytes(bare)
			r.dropped = true
		}
	}
	if _, err := r.file.Write(hidden); err != nil {
		return 0, environment.MarkMachineError(err)
	}
	return len(line), nil
}

// Variables returns the agent's variables with those of the gateway, which it cannot replace.
func (g *Gateway) Variables(env map[string]string) map[string]string {
	env = maps.Clone(env)
	maps.Copy(env, g.env)
	return env
}

// Transport sends the requests of an agent in this process.
func (g *Gateway) Transport() http.RoundTripper { return g.session.Transport() }

// Shared reports whether processes in the environment may have used the agent's access.
func (g *Gateway) Shared() bool { return g.listener != nil }

// Report returns the calls so far.
func (g *Gateway) Report() gateway.Report { return g.session.Report() }

// Close closes the gateway.
func (g *Gateway) Close() {
	g.session.Close()
	if g.listener != nil {
		g.listener.Close()
	}
}
