package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fetch"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// get loads a registry from a URL, or from the cache if it is unchanged or the server cannot be
// reached.
func (o Options) get(ctx context.Context, source string) (*Registry, error) {
	u, err := url.Parse(source)
	shown := fetch.Shown(source, "the registry's URL")
	if err != nil || u.Host == "" {
		return nil, diag.List{{File: "registry", Message: fmt.Sprintf("%q is not a URL", shown)}}
	}
	kept := o.kept(source, shown)
	tries := 0
	if kept.body != nil {
		tries = 2 // the cached copy is enough
	}
	file, err := fetch.Get(ctx, source, fetch.Options{
		Max: maxSize, Known: kept.Validators, Tries: tries, Transport: o.Transport, Delay: o.Delay, Timeout: o.Timeout, Stall: o.Stall,
	})
	fresh, text := err == nil, file.Data
	notice := ""
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, fetch.ErrNotModified):
		text = kept.body
	case err != nil && kept.body != nil && fetch.Temporary(err):
		text = kept.body
		notice = fmt.Sprintf("%v; using the copy of %s", failure(shown, err), kept.at.UTC().Format("2006-01-02 15:04 UTC"))
	case err != nil:
		return nil, failure(shown, err)
	}
	r, err := Parse(shown, text)
	if err != nil {
		return nil, err // so an invalid registry is not cached
	}
	r.Notice = notice
	if fresh && o.Cache != nil {
		if err := o.keep(source, shown, file.Validators, text); err != nil && r.Notice == "" {
			r.Notice = err.Error()
		}
	}
	return r, nil
}

// keptCopy is a cached registry; the zero value means that there is none.
type keptCopy struct {
	fetch.Validators
	body []byte
	at   time.Time
}

func (o Options) key(source, shown string) cache.Key {
	return cache.Key{Kind: "registry", Text: source, About: shown}
}

func (o Options) kept(source, shown string) keptCopy {
	if o.Cache == nil {
		return keptCopy{}
	}
	file, err := o.Cache.ReadFile(o.key(source, shown))
	if err != nil {
		return keptCopy{}
	}
	head, body, found := bytes.Cut(file.Data, []byte("\n"))
	k := keptCopy{body: body, at: file.At}
	if !found || json.Unmarshal(head, &k.Validators) != nil {
		return keptCopy{}
	}
	return k
}

func (o Options) keep(source, shown string, tag fetch.Validators, text []byte) error {
	head, err := json.Marshal(tag)
	if err != nil {
		return err
	}
	return o.Cache.WriteFile(o.key(source, shown), append(append(head, '\n'), text...))
}

// failure adds the registry to the error; an error that is not transient becomes a diag.List.
func failure(shown string, err error) error {
	if fetch.Temporary(err) || errors.Is(err, fetch.ErrTooLarge) {
		return fmt.Errorf("the registry %s cannot be loaded: %w", shown, err)
	}
	return diag.List{{File: shown, Message: "the registry cannot be loaded: " + untrusted.Line(err.Error())}}
}
