package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
)

// content is the part of a request that determines its answer, without volatile texts, which differ
// from run to run.
type content struct {
	Model    string            `json:"model"`
	Sampling map[string]string `json:"sampling,omitempty"`
	Tools    []model.Tool      `json:"tools,omitempty"` // by name
	Messages []model.Message   `json:"messages"`
}

// contentOf returns the content of a request without secrets. hidden reports whether it contained
// any.
func contentOf(p api.Protocol, path string, asked []byte, hide func([]byte) []byte) (_ content, hidden bool) {
	body := hide(asked)
	hidden = !bytes.Equal(body, asked)
	conversation := p.Conversation(path, body)
	c := content{Model: api.AskedModel(p, path, body), Sampling: map[string]string{}, Tools: conversation.Tools, Messages: conversation.Messages}
	// Limits of the length are left out: clients compute them from the length of the conversation.
	for _, at := range api.Sampling() {
		if v := gjson.GetBytes(body, at); v.Exists() {
			c.Sampling[at] = string(canonicalJSON([]byte(v.Raw)))
		}
	}
	c = c.steady()
	for _, m := range c.Messages {
		for i, p := range m.Parts { // joined now: a secret may have been spread over several
			safe := string(hide([]byte(p.Text)))
			hidden = hidden || safe != p.Text
			m.Parts[i].Text = safe
		}
	}
	return c, hidden
}

// steady returns the content without volatile texts. It is idempotent.
func (c content) steady() content {
	out := content{Model: c.Model, Sampling: c.Sampling, Messages: []model.Message{}}
	for _, t := range c.Tools {
		t.Description = steady(t.Description)
		t.Parameters = canonicalJSON([]byte(steady(string(t.Parameters))))
		out.Tools = append(out.Tools, t)
	}
	slices.SortStableFunc(out.Tools, func(a, b model.Tool) int { return strings.Compare(a.Name, b.Name) })
	ids := map[string]string{}
	for _, m := range c.Messages {
		// Clients change texts, reasoning and their division into parts when they send an answer
		// again.
		m = model.Canonical(m)
		for i, p := range m.Parts {
			if p.ID != "" {
				if ids[p.ID] == "" {
					ids[p.ID] = fmt.Sprintf("call-%d", len(ids)+1)
				}
				m.Parts[i].ID = ids[p.ID]
			}
			m.Parts[i].Text = steady(p.Text)
			if len(p.Arguments) > 0 {
				m.Parts[i].Arguments = canonicalJSON([]byte(steady(string(p.Arguments))))
			}
		}
		if len(m.Parts) > 0 {
			out.Messages = append(out.Messages, m)
		}
	}
	return out
}

// digest returns a digest of a content that is steady.
func (c content) digest() string {
	text, err := json.Marshal(c)
	if err != nil { // arguments that are no JSON: content.steady has quoted them
		text = fmt.Appendf(nil, "%v", c)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// canonicalJSON returns JSON with sorted keys and no spaces. Text that is not JSON becomes a JSON
// string.
func canonicalJSON(text []byte) json.RawMessage {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		v = string(text)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(v) != nil {
		return json.RawMessage("null") // cannot happen: it was decoded
	}
	return json.RawMessage(bytes.TrimSpace(b.Bytes()))
}

// month matches the name of a month, and clock a time of day.
const (
	month = `(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)`
	clock = `\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AP]M)?`
)

// natural lists patterns of volatile texts, which differ from run to run with the same agent and
// task, and their replacements. The order matters.
var natural = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)^x-anthropic-billing-header:.*$`), ""},
	{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<id>"},
	{regexp.MustCompile(`\b(?:toolu|call|msg|resp|chatcmpl|req|rs|fc|ctc|ses|prt|scripted|rollout)[_-][A-Za-z0-9]{8,}\b`), "<id>"},
	{regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}[T ]` + clock + `(?:Z| ?[+-]\d{2}:?\d{2}| UTC)?`), "<time>"},
	{regexp.MustCompile(`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?` + month + ` +\d{1,2}(?:,? \d{4})?(?:,? +` + clock + `)?(?: [A-Z]{3,4}\b)?(?: \d{4}\b)?`), "<time>"},
	{regexp.MustCompile(`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?\d{1,2} ` + month + `(?: \d{4})?(?:,? ` + clock + `)?(?: GMT| UTC)?`), "<time>"},
	{regexp.MustCompile(`\b\d{4}[-/]\d{2}[-/]\d{2}\b|\b\d{1,2}/\d{1,2}/\d{4}\b`), "<time>"},
	{regexp.MustCompile(`\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?(?: ?[AP]M)?\b`), "<time>"},
	{regexp.MustCompile(`\b1[6-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d+)?\b`), "<time>"}, // seconds since 1970, and parts of them
	{regexp.MustCompile(`(?:/private)?/var/folders/\w+/\w+/T/[\w.-]+`), "<tmp>"},
	{regexp.MustCompile(`/tmp/tmp[._-]?\w{6,}`), "<tmp>"}, // of mktemp and Python's tempfile
	{regexp.MustCompile(`(/tmp/[\w.]*[._-])[A-Za-z0-9]*(?:[a-zA-Z]\d|\d[a-zA-Z])[A-Za-z0-9]{4,}`), "${1}<tmp>"},
	{regexp.MustCompile(`\b((?:127\.0\.0\.1|localhost|\[::1\])):\d+`), "${1}:<port>"},
	{regexp.MustCompile(`\b(?:\d{1,3}\.){3}\d{1,3}:\d+\b`), "<address>"},
	{regexp.MustCompile(`(?i)\b(token usage:? *)[\d,]+ */ *[\d,]+(; [\d,]+ remaining)?`), "${1}<count>"},
	{regexp.MustCompile(`(?i)\b[\d,.]+k?( *(?:input |output |total |remaining |context )?tokens?\b)`), "<count>${1}"},
	{regexp.MustCompile(`(?i)(tokens?(?:_\w+)?"?[:=] *)[\d,]+`), "${1}<count>"},
	{regexp.MustCompile(`\b\d+m\d+(?:\.\d+)?s\b|\b\d+\.\d+ ?(?:ms|s|sec|seconds)\b|\b\d+ ?ms\b`), "<duration>"},
	{regexp.MustCompile(`\b[0-9a-f]*(?:[a-f][0-9]|[0-9][a-f])[0-9a-f]*\b`), ""}, // see steady
}

// steady replaces volatile texts.
func steady(text string) string {
	for i, n := range natural {
		if i < len(natural)-1 {
			text = n.what.ReplaceAllString(text, n.by)
			continue
		}
		text = n.what.ReplaceAllStringFunc(text, func(word string) string {
			if len(word) < 12 { // the names of containers have 12 digits, digests more
				return word
			}
			return "<id>"
		})
	}
	return strings.TrimSpace(text)
}
