package stages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/gateway"
)

// AskedModel is the answer of a model to a request for one token.
type AskedModel struct {
	Name     string // in the job file
	API      string
	Asked    string // the name that the provider was asked for
	Answered string // the model's own name; "" if it stated none, or did not answer
	Latency  time.Duration
	// Input and Output are the prices in US dollars per million tokens; nil if they are not known.
	Input, Output *float64
	Replays       bool   // it answers from records, so it was not asked
	Err           string // why it did not answer; "" if it did
}

// Limits on the requests to models.
const (
	modelsAtOnce = 16
	modelTimeout = 30 * time.Second
)

// AskModels sends each model that an agent or a judge uses a request for one token. Problems have
// the position of the key that is probably wrong.
func (l *Loaded) AskModels(ctx context.Context) ([]AskedModel, diag.List, error) {
	models, err := l.OpenModels(false)
	if err != nil {
		return nil, nil, err
	}
	used := map[string]bool{}
	for _, a := range l.Job.Agents {
		used[a.Model] = true
	}
	for _, j := range l.Job.Judges {
		used[j.Model] = true
	}
	for _, name := range JudgeModels(l.Sets) {
		used[name] = true
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(models)), func(name string) bool { return !used[name] })
	asked, failed := make([]AskedModel, len(names)), make([]error, len(names))
	places := make(chan struct{}, modelsAtOnce)
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			asked[i], failed[i] = l.askModel(ctx, name, models[name])
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, nil, host.ErrCancelled
	}
	var problems diag.List
	for i, err := range failed {
		if err != nil {
			d := l.modelProblem(names[i], err)
			asked[i].Err = d.Message
			problems = append(problems, d)
		} else if one := asked[i]; one.Answered != "" && !model.SameModel(one.Asked, one.Answered) {
			at, path := l.ModelAt(names[i], "model")
			problems = append(problems, diag.Diagnostic{
				File: at.File, Line: at.Line, Column: at.Column, Severity: diag.Warning, Message: host.Clean(fmt.Sprintf("%s: the provider was asked for %q and answered as %q", path, one.Asked, one.Answered)),
				Hint: "see which model it has, whose price and results these are",
			})
		}
	}
	return asked, problems, nil
}

// askModel sends one model a request for one token.
func (l *Loaded) askModel(ctx context.Context, name string, m *gateway.Model) (AskedModel, error) {
	ctx, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	defer m.Close()
	probed, err := gateway.Probed{}, error(nil)
	replays := l.Job.Models[name].Replay != ""
	if !replays {
		probed, err = m.Probe(ctx)
	}
	now := l.Host.Now()
	out := AskedModel{Name: name, API: string(m.API), Asked: m.Upstream, Answered: host.Clean(redact.New(l.Secrets).String(probed.Answered)), Latency: probed.Latency, Replays: replays}
	const sample = 1000 // tokens; prices may be higher for very long requests
	price := func(u model.Usage) *float64 {
		if usd := m.Cost(cmp.Or(probed.Answered, m.Upstream), now, u); usd != nil {
			return new(*usd * 1e6 / sample)
		}
		return nil
	}
	out.Input = price(model.Usage{Input: new(int64(sample)), Output: new(int64(0))})
	out.Output = price(model.Usage{Input: new(int64(0)), Output: new(int64(sample))})
	return out, err
}

// modelProblem returns the problem of a model that did not answer.
func (l *Loaded) modelProblem(name string, err error) diag.Diagnostic {
	failed := &gateway.ProbeError{Message: err.Error()}
	errors.As(err, &failed)
	at, path := l.ModelAt(name, failed.Key)
	d := diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column}
	secrets := l.Models[name]
	message := failed.Message
	switch failed.Key {
	case "api_key":
		if d.Hint = "set the variable to a key that is valid for this provider"; secrets.Key == "" {
			message, d.Hint = "the provider wants a key, and there is none", "add api_key: ${NAME_OF_A_VARIABLE}"
		}
	case "model":
		d.Hint = "write the name that the provider knows"
	case "base_url":
		d.Hint = "correct the URL, or see why this machine cannot reach it"
	case "record_tokens":
		d.Hint = "remove it, or use a server that knows return_token_ids, such as vLLM or SGLang"
	default:
		d.Hint = "try again later"
	}
	if l.Job.Models[name].API == string(model.Scripted) {
		d.Severity, d.Hint = diag.Warning, "a script need not answer to \"Hi\""
	}
	if failed.Busy {
		d.Severity = diag.Warning
	}
	d.Message, d.Hint = host.Clean(fmt.Sprintf("%s: %s", path, redact.New(l.Secrets).String(message))), host.Clean(d.Hint)
	return d
}
