package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/meter"
)

// Options configure a Session.
type Options struct {
	Model *Model
	// Name identifies the session to Transports (model.Caller): the directory of its trial.
	Name   string
	Budget model.Budget
	// Purse, if not nil, is the budget of the job.
	Purse Purse
	// Restricted: the environment's network is restricted, so tools that the provider runs, such as
	// searches of the web, are removed from requests.
	Restricted bool
	// Conversations: Keep gets the contents of turns, too: messages, tools and texts of errors.
	Conversations bool
	// Reply: the report has the text of the last answer, and those of the last answers without a
	// call of a tool.
	Reply bool
	// Keep, if not nil, stores a turn. A turn's last event is sent only after Keep has returned. It
	// is called for one turn at a time.
	Keep func(model.Turn) error
	// KeepAlive is the time without an event after which a sign of life is sent; 0: 15 seconds.
	KeepAlive time.Duration
	// MaxWait is the maximum wait of a request for rate limits, before the provider's refusal is
	// passed on, and for turns that may use up a budget; 0: 4 minutes. Clients give up after five.
	MaxWait time.Duration
}

// Session is one trial's access to a model. Its methods are safe for concurrent use.
type Session struct {
	opts   Options
	token  string
	server *http.Server
	end    context.CancelCauseFunc

	keeping sync.Mutex   // held while a turn is kept
	held    atomic.Int64 // bytes of bodies in memory
	maxHeld int64
	counts  model.Counts
	ext     atomic.Bool // exchange.ext
	ledger  *meter.Ledger
	line    meter.Line // of turns that are to be admitted

	mu        sync.Mutex
	sealed    bool
	n         int // of requests for turns
	running   int64
	queued    int64 // turns that wait for a budget, or for others that wait
	fruitless int   // calls in a row that the provider accepted, but without a whole answer that has output
	answered  int   // calls with at least a part of an answer
	report    Report
	known     map[string]bool // models that answered
	active    []interval      // times in which calls ran
}

type interval struct{ from, to time.Time }

// Report summarizes a session.
type Report struct {
	Turns  int64 // answers that came to their end
	Calls  int64 // requests that were sent to the provider
	Failed int64 // those of them without a complete answer
	// Refused is the number of requests that were refused because of Stop.
	Refused int64
	Usage   model.Usage
	// Cost is in US dollars; nil if the cost of no call is known. Unpriced is the number of calls
	// without a price, or without a complete one, and Estimated that of calls whose usage is
	// estimated. Usage and Cost are lower bounds if there are any.
	Cost     *float64
	Unpriced int64
	// PartlyPriced is the number of Unpriced calls whose cost is partly known.
	PartlyPriced int64
	Estimated    int64
	// Contradictory is the number of calls whose usage contradicts itself, and Contradiction
	// describes the first of them.
	Contradictory int64
	Contradiction string
	// ModelTime is the time in which at least one request was with the provider, without Waiting.
	ModelTime time.Duration
	// FirstByte is the mean time from sending a request to the first byte of its answer; 0 without
	// an answer.
	FirstByte time.Duration
	// Waiting is the sum of the times that requests waited for rate limits, free places, and other
	// turns that may use up a budget.
	Waiting time.Duration
	// Asked is the model's name that was sent to the provider; Answered are those that it stated,
	// at most 10.
	Asked    string
	Answered []string
	Reply    string         // the text of the last answer that came to its end, if Options.Reply asks for it
	Replies  []string       // the texts of the last maxReplies answers without a call of a tool, if Options.Reply asks for them
	Stop     model.Stop     // "" if no budget was used up
	Failure  *model.Failure // of the last call, unless one succeeded after it
	Missed   string         // of StopMissed: how the request differs from the nearest record
	// Truncated: the last answer was cut off by a limit of its length.
	Truncated bool
	// Untold are complete answers without ids of tokens, although these are recorded, and Unlikely
	// those with ids but without a log probability for each.
	Untold, Unlikely int64
	Stripped         []string // tools and files that were removed from requests, each once
	Removed          []string // fields that named other models or accounts, which were removed, each once
	Denied           []string // why requests were not passed on, each reason once
	Foreign          string   // a path of another protocol that the agent asked for; "" if there was none
	Strange          int64    // requests with another key, which were refused
	Late             int64    // requests that came after the session had ended
}

var errSealed = errors.New("the trial's access to its model has ended")

// NewSession returns a session with a new token.
func NewSession(o Options) *Session {
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.MaxWait == 0 {
		o.MaxWait = 4 * time.Minute
	}
	ctx, end := context.WithCancelCause(context.Background())
	s := &Session{opts: o, token: "rollout-" + rand.Text(), end: end, known: map[string]bool{}, maxHeld: maxHeld, ledger: meter.NewLedger(o.Budget)}
	s.report.Asked = o.Model.Upstream
	s.server = &http.Server{
		Handler: http.HandlerFunc(s.serveHTTP), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: 256 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: discardLog,
	}
	return s
}

// Limits on connections and times, per agent. Waiting for an answer has no
// separate limit: models think for long.
const (
	maxConnections = 512
	headerTime     = time.Minute     // until the header of a request has come
	bodyTime       = 5 * time.Minute // until its body has come
	writeTime      = 2 * time.Minute // until the client takes the next part of its answer, or half of it
	idleTime       = 5 * time.Minute // between two requests
)

// Token returns the key that clients must send.
func (s *Session) Token() string { return s.token }

// Serve answers requests that come through l, until l is closed. Several may be served at once, and
// one after the other. More connections of a listener than an agent can need wait until others have
// ended.
func (s *Session) Serve(l net.Listener) {
	_ = s.server.Serve(netutil.LimitListener(l, maxConnections)) // its error is the listener's end
}

// Seal ends access to the model: requests that run are aborted, and later ones are refused, so that
// no remaining process spends money. It returns when all turns are stored. Serve continues, to
// refuse requests.
func (s *Session) Seal() Report {
	s.mu.Lock()
	s.sealed = true
	s.mu.Unlock()
	s.end(errSealed)
	for deadline := time.Now().Add(sealTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		running := s.running + s.queued
		s.mu.Unlock()
		if running == 0 {
			break
		}
	}
	return s.Report()
}

// sealTime bounds waiting for turns that were aborted.
const sealTime = 5 * time.Second

// Close seals the session and ends Serve.
func (s *Session) Close() Report {
	r := s.Seal()
	_ = s.server.Close() // the makers of the listeners close them, too
	return r
}

// Report returns the report of the session so far.
func (s *Session) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Answered, r.Stripped, r.Replies = slices.Clone(r.Answered), slices.Clone(r.Stripped), slices.Clone(r.Replies)
	r.Removed, r.Denied = slices.Clone(r.Removed), slices.Clone(r.Denied)
	r.ModelTime = together(s.active)
	if s.answered > 0 {
		r.FirstByte /= time.Duration(s.answered)
	}
	return r
}

// together returns the total length of the union of the intervals.
func together(list []interval) time.Duration {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b interval) int { return a.from.Compare(b.from) })
	var total time.Duration
	var until time.Time
	for _, i := range sorted {
		from := i.from
		if until.After(from) {
			from = until
		}
		if i.to.After(from) {
			total += i.to.Sub(from)
			until = i.to
		}
	}
	return total
}

// calling returns the context of a request to the provider.
func (s *Session) calling(ctx context.Context, p api.Protocol, action model.Action) context.Context {
	return model.WithCaller(ctx, s.opts.Name, p.Facts().Name, action, &s.counts)
}

// admits reports whether a token is the session's.
func (s *Session) admits(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// maxFruitless is the maximum number of consecutive calls without a result that the provider
// accepted: an agent that continues then would never end. Refused calls do not count: agents give
// up after them, or wait for longer each time.
const maxFruitless = 10

// finish stores a turn and counts it. It returns the error of Keep.
func (s *Session) finish(x *exchange) error {
	t, sent, broke := x.turn, x.sent, x.broke
	if t.Failure == nil || t.Answer.Usage.Known() {
		t.Cost, t.AtLeast = s.cost(t)
	}
	err := s.keep(t)
	s.settle(x.size, t, x.reached)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	r := &s.report
	r.Waiting += t.Waiting
	r.Failure = t.Failure
	if t.Failure != nil && t.Failure.Kind == model.FailedMissed && r.Stop == "" {
		r.Stop = model.StopMissed // the behaviour of the agent after a miss is not representative
		r.Missed = t.Failure.Message
	}
	if err != nil {
		r.Failure = &model.Failure{Kind: model.FailedGateway, Message: "keep a turn: " + err.Error()}
	}
	r.Stripped, r.Removed = addOnce(r.Stripped, t.Stripped...), addOnce(r.Removed, t.Removed...)
	if t.Failure != nil && t.Failure.Kind == model.FailedRefused {
		r.Denied = addOnce(r.Denied, t.Failure.Message)
	}
	if sent {
		s.countTurn(t)
		s.countFruitless(t, broke)
	}
	return err
}

// keep calls Keep, with one turn at a time.
func (s *Session) keep(t model.Turn) error {
	if s.opts.Keep == nil {
		return nil
	}
	if !s.opts.Conversations {
		t = t.WithoutContents()
	}
	s.keeping.Lock()
	defer s.keeping.Unlock()
	return s.opts.Keep(t)
}

// countTurn adds a turn that was sent to the report. The caller holds the lock.
func (s *Session) countTurn(t model.Turn) {
	r := &s.report
	r.Calls++
	if len(s.active) < maxIntervals {
		s.active = append(s.active, interval{t.Began.Add(t.Waiting), t.Ended})
	}
	if !t.FirstByte.IsZero() {
		r.FirstByte += t.FirstByte.Sub(t.Began.Add(t.Waiting))
		s.answered++
	}
	r.Usage = r.Usage.Plus(t.Answer.Usage)
	r.Cost = meter.Sum(r.Cost, t.Cost)
	usage := t.Answer.Usage
	switch {
	case t.Cost == nil && (t.Failure == nil || usage.Known()), t.AtLeast && !usage.Estimated:
		r.Unpriced++
		if t.Cost != nil {
			r.PartlyPriced++
		}
	}
	if usage.Estimated {
		r.Estimated++
	}
	if usage.Contradiction != "" {
		r.Contradictory++
		r.Contradiction = cmp.Or(r.Contradiction, usage.Contradiction)
	}
	if name := t.Answer.Model; name != "" && !s.known[name] && len(s.known) < 10 {
		s.known[name] = true
		r.Answered = append(r.Answered, name)
	}
	if t.Failure != nil {
		r.Failed++
		return
	}
	r.Turns++
	switch {
	case !s.opts.Model.Tokens:
	case t.Answer.Tokens == nil:
		r.Untold++
	case t.Answer.Tokens.Logprobs == nil:
		r.Unlikely++
	}
	if s.opts.Reply {
		s.countReply(t.Answer.Message)
	}
	r.Truncated = api.Truncated(t.Answer.Finish)
}

// Bounds of Report.Replies: longer texts are left out.
const (
	maxReplies = 50
	maxReply   = 64 << 10 // bytes
)

// countReply records the text of an answer. The caller holds the lock.
func (s *Session) countReply(m model.Message) {
	r := &s.report
	r.Reply = m.Text()
	called := slices.ContainsFunc(m.Parts, func(p model.Part) bool { return p.Type == model.PartCall })
	if called || r.Reply == "" || len(r.Reply) > maxReply {
		return
	}
	if len(r.Replies) == maxReplies {
		r.Replies = slices.Delete(r.Replies, 0, 1)
	}
	r.Replies = append(r.Replies, r.Reply)
}

// removed records the parts that were removed from a request that is not a turn.
func (s *Session) removed(web, models []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Stripped, s.report.Removed = addOnce(s.report.Stripped, web...), addOnce(s.report.Removed, models...)
}

// addOnce appends the names that the list does not have, up to 50 in total.
func addOnce(list []string, names ...string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) && len(list) < 50 {
			list = append(list, name)
		}
	}
	return list
}

// countFruitless counts consecutive turns without a result. The caller holds the lock.
func (s *Session) countFruitless(t model.Turn, broke bool) {
	usage := t.Answer.Usage
	empty := usage.Output != nil && *usage.Output == 0 || usage.Output == nil && len(t.Answer.Message.Parts) == 0
	switch {
	case t.Failure == nil && !empty:
		s.fruitless = 0
	case t.Failure == nil || broke:
		s.fruitless++
	}
}

// maxIntervals is the maximum number of call times that are kept.
const maxIntervals = 100_000

// strange counts a request with another key.
func (s *Session) strange() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Strange++
}

// foreign records a request for a path of another protocol.
func (s *Session) foreign(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report.Foreign == "" {
		s.report.Foreign = path
	}
}
