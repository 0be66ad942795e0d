package inspect

import (
	"fmt"
	"slices"
	"strings"
)

// Rules are the rules of one protocol.
type Rules struct {
	// Client reports whether the provider does not run a tool: the client does, or it is never run.
	Client func(Tool) bool
	// Declared, if not nil, are the keys of tools that the client runs, as plain keys: each key of
	// an object in the list of tools is a tool.
	Declared []string
	// Text encodes a text as a part of a message.
	Text func(string) []byte
}

// Tool is a tool that a request offers.
type Tool struct {
	Type, Name  string
	Execution   string // of a search of tools: "client" or "server"
	Environment string // the type of a shell's environment; "" if there is none
}

// Found lists the parts that were removed from a request.
type Found struct {
	// Web are tools that the provider runs, and pictures and files by URL, which only a restricted
	// network forbids.
	Web []string
	// Models are fields that name other models, servers or accounts than the configured ones.
	Models []string
}

// Refusal is the error of a request that is not passed on.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// Request returns the body of a request, a valid JSON object, without the parts that a gateway does
// not pass on. All other bytes stay as they are. restricted reports whether the network is
// restricted. The error is a *Refusal.
func Request(body []byte, rules Rules, restricted bool) ([]byte, Found, error) {
	s := &scan{text: body, rules: rules, restricted: restricted}
	defer func() { s.text = nil }()
	if _, left := s.value(space(body, 0), place{}); left.mark != "" {
		s.refuse("the request has %s at a place where the gateway cannot remove it, and does not pass it on", left.mark)
	}
	if s.err != nil {
		return nil, Found{}, s.err
	}
	s.found.Web, s.found.Models = once(s.found.Web), once(s.found.Models)
	return applied(body, s.edits), s.found, nil
}

// once returns the names without duplicates.
func once(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) && len(out) < maxFound {
			out = append(out, name)
		}
	}
	return out
}

// maxFound is the maximum number of names of removed parts.
const maxFound = 50

// Unique returns a *Refusal if an object of a body, which is valid, has the same key twice where a
// gateway reads or changes it.
func Unique(body []byte) error {
	s := &scan{text: body, unique: true}
	s.value(space(body, 0), place{})
	return s.err
}

// scan is one pass over a body.
type scan struct {
	text       []byte
	rules      Rules
	restricted bool
	unique     bool // only keys are compared
	edits      []edit
	found      Found
	models     int // fields that name a model, so far
	err        error
}

// place is the position of a value in the body.
type place struct {
	key   string // plain; of an element, that of its list
	depth int
	// element reports whether the value is an element of a list.
	element bool
	media   bool // within a picture or a file
	tool    bool // an element of a list of tools, or a definition of one
}

// left is the result of reading a value, for the value around it.
type left struct {
	mark  string // the kind of content that must not be passed on; "" if there is none
	empty bool   // a list of tools of which none is left
}

func (s *scan) refuse(format string, args ...any) {
	if s.err == nil {
		s.err = &Refusal{fmt.Sprintf(format, args...)}
	}
}

// maxLevels bounds the depth of the checked part of a request, maxMembers the keys of an object
// there and the elements of a list of tools, and maxEdits the parts that are removed or replaced:
// without limits, a request of 256 MiB could consist of them.
const (
	maxLevels  = 64
	maxMembers = 10_000
	maxEdits   = 100_000
)

// foundWeb records the names of parts that were removed because the network is restricted.
func (s *scan) foundWeb(names ...string) {
	if len(s.found.Web) < maxMembers {
		s.found.Web = append(s.found.Web, names...)
	}
}

// foundModel records a field that was removed because it names another model.
func (s *scan) foundModel(name string) {
	if len(s.found.Models) < maxMembers {
		s.found.Models = append(s.found.Models, name)
	}
}

// edit records edits of the request.
func (s *scan) edit(edits ...edit) {
	if s.edits = append(s.edits, edits...); len(s.edits) > maxEdits {
		s.refuse("the request has more than %d parts that the gateway would have to remove", maxEdits)
	}
}

// value reads the value at i, and returns its end.
func (s *scan) value(i int, at place) (int, left) {
	if at.depth > maxLevels {
		s.refuse("the request is nested more than %d levels deep", maxLevels)
	}
	if s.err != nil || at.depth > 0 && labels[at.key] || at.depth > 1 && !at.element && opaque[at.key] {
		return valueEnd(s.text, i), left{}
	}
	switch s.text[i] {
	case '{':
		return s.object(i, at)
	case '[':
		return s.list(i, at)
	}
	end := valueEnd(s.text, i)
	if s.unique || !s.restricted || s.text[i] != '"' {
		return end, left{}
	}
	return end, left{mark: s.markOf(s.text[i:end], at)}
}

// markOf returns "URL" for a text that the provider would fetch, otherwise "".
func (s *scan) markOf(raw []byte, at place) string {
	strict := fetched(at.key) || at.media && (at.key == "url" || at.key == "uri")
	if !strict && (!at.media && (!media[at.key] || at.key == "source") || prose[at.key]) {
		return ""
	}
	if text := unquoted(raw); strict && text != "" && !isInline(text) || isURL(text) {
		return "URL"
	}
	return ""
}

// member is a key of an object with its value.
type member struct {
	name string
	key  string // plain
	span
	from int // of the value
	left left
}

// object reads the object at i.
func (s *scan) object(i int, at place) (int, left) {
	var list []member
	seen := map[string]bool{}
	models := s.models
	for i = space(s.text, i+1); s.text[i] != '}'; {
		m := member{span: span{at: i}}
		end := stringEnd(s.text, i)
		m.name = unquoted(s.text[i:end])
		m.key = plain(m.name)
		if seen[m.key] {
			s.refuse("the request has the key %q twice in one object, which servers read differently", m.name)
		}
		seen[m.key] = true
		if len(list) >= maxMembers {
			s.refuse("an object of the request has more than %d keys", maxMembers)
		}
		if m.key == "model" || m.key == "models" {
			s.models++
		}
		m.from = space(s.text, space(s.text, end)+1) // after the colon
		before := s.models
		m.end, m.left = s.value(m.from, s.below(m, at))
		if s.err != nil {
			return len(s.text), left{}
		}
		if at.depth == 0 && !s.unique {
			s.field(&m, s.models > before && !talk[m.key] && !labels[m.key])
		}
		list = append(list, m)
		if i = space(s.text, m.end); s.text[i] == ',' {
			i = space(s.text, i+1)
		}
	}
	if s.unique {
		return i + 1, left{}
	}
	return i + 1, s.judge(list, at, s.models > models)
}

// below returns the place of a member's value.
func (s *scan) below(m member, at place) place {
	label := m.key == "source" && s.text[m.from] == '"' // of a result of a search
	p := place{key: m.key, depth: at.depth + 1, media: (at.media || media[m.key] || fetched(m.key)) && m.key != "content" && !label}
	if p.key == "definition" && s.text[m.from] == '{' && !s.unique && s.rules.Declared == nil {
		p.tool = true // of a tool that is added within a conversation
	}
	if p.key == "tools" && s.restricted && s.text[m.from] != '[' && s.text[m.from] != 'n' {
		s.refuse("tools of the request are no list, and the network is restricted")
	}
	return p
}

// field checks a top-level field of the request.
func (s *scan) field(m *member, namesModel bool) {
	switch {
	case m.key == "prompt" && s.text[m.from] == '{':
		s.refuse("the request names a prompt that is stored with the provider, which may name another model and other tools: send the prompt itself")
	case otherModels[m.key] || namesModel:
		m.removed = true
		s.foundModel(m.name)
	case m.key == "tools" && m.left.empty:
		m.removed = true
	case s.restricted && webFields[m.key]:
		m.removed = true
		names := []string{m.name}
		if m.key == "mcpservers" && s.text[m.from] == '[' {
			names = typesOf(s.text[m.from:m.end])
		}
		s.foundWeb(names...)
	}
}

// judge checks an object whose members were read. model reports whether one of them, or a value in
// it, names a model.
func (s *scan) judge(list []member, at place, model bool) left {
	spans := make([]span, len(list))
	var out left
	for i, m := range list {
		spans[i] = m.span
		if at.depth == 1 && at.key == "generationconfig" && otherConfigs[m.key] {
			spans[i].removed = true
			s.foundModel(m.name)
		}
		inText := m.left.mark == "URL" && m.key == "data" && nameOf(s.text, list) == "text" // a document that is a text may begin like a URL
		if m.left.mark != "" && !spans[i].removed && !inText {
			out.mark = m.left.mark
		}
	}
	if at.tool {
		out = s.tool(list, spans, model, at)
	}
	if out.mark == "URL" && !at.media {
		out.mark = nameOf(s.text, list) + " by URL"
	}
	s.edit(removals(spans)...)
	return out
}

// tool checks a tool.
func (s *scan) tool(list []member, spans []span, model bool, at place) left {
	if s.rules.Declared != nil {
		return s.declared(list, spans)
	}
	t := Tool{}
	emptied := false
	for _, m := range list {
		text := unquoted(s.text[m.from:m.end])
		if text == "" && s.text[m.from] != '"' && s.text[m.from] != 'n' {
			text = "?" // not a text, so of no known type
		}
		switch m.key {
		case "type":
			t.Type = text
		case "name":
			t.Name = text
		case "execution":
			t.Execution = text
		case "environment":
			t.Environment = text
			if s.text[m.from] == '{' {
				t.Environment = typesOf(append(append([]byte("["), s.text[m.from:m.end]...), ']'))[0]
			}
		case "tools":
			emptied = m.left.empty
		}
	}
	name := t.Type
	if name == "" {
		name = t.Name
	}
	switch client := s.rules.Client(t); {
	case !client && model:
		s.foundModel(name)
	case !client && s.restricted:
		s.foundWeb(name)
	case !client || !emptied || at.key == "definition":
		return left{}
	}
	return left{mark: name}
}

// declared removes tools that Google runs from an object that may declare several.
func (s *scan) declared(list []member, spans []span) left {
	if !s.restricted {
		return left{}
	}
	n := 0
	for i, m := range list {
		client := false
		for _, key := range s.rules.Declared {
			client = client || key == m.key
		}
		if client {
			n++
			continue
		}
		spans[i].removed = true
		s.foundWeb(m.name)
	}
	if n == 0 && len(list) > 0 {
		return left{mark: list[0].name}
	}
	return left{}
}

// list reads the list at i.
func (s *scan) list(i int, at place) (int, left) {
	var spans []span
	var out left
	tools := at.key == "tools" && !s.unique
	gone := 0
	for i = space(s.text, i+1); s.text[i] != ']'; {
		one := span{at: i}
		inside := place{key: at.key, depth: at.depth + 1, element: true, media: at.media, tool: tools}
		var l left
		one.end, l = s.value(i, inside)
		if s.err != nil {
			return len(s.text), left{}
		}
		if tools && s.restricted && s.text[i] != '{' {
			l.mark = "?"
			s.foundWeb("?")
		}
		switch {
		case l.mark == "":
		case tools || at.key == "toolchanges":
			one.removed = true
		case contents[at.key] && s.text[i] == '{':
			s.edit(edit{one.at, one.end, s.rules.Text("[The gateway to the model has removed: " + l.mark + "]")})
			if strings.HasSuffix(l.mark, " by URL") {
				s.foundWeb(l.mark)
			}
		default:
			out.mark = l.mark
		}
		if one.removed {
			gone++
		}
		if tools || at.key == "toolchanges" {
			if spans = append(spans, one); len(spans) > maxMembers {
				s.refuse("a list of tools of the request has more than %d elements", maxMembers)
			}
		}
		if i = space(s.text, one.end); s.text[i] == ',' {
			i = space(s.text, i+1)
		}
	}
	s.edit(removals(spans)...)
	out.empty = gone > 0 && gone == len(spans)
	return i + 1, out
}

// KeyOf returns the key of a JSON object that the most lenient readers take for name; name if there
// is none.
func KeyOf(object []byte, name string) string {
	if i := space(object, 0); i < len(object) && object[i] == '{' {
		for _, m := range (&scan{text: object}).members(i) {
			if m.key == plain(name) {
				return m.name
			}
		}
	}
	return name
}

// typesOf returns the types of the objects in a list, or their names.
func typesOf(raw []byte) []string {
	var out []string
	s := &scan{text: raw}
	for i := space(raw, 1); raw[i] != ']'; {
		name := "?"
		if raw[i] == '{' {
			name = nameOf(raw, s.members(i))
		}
		if len(out) < maxFound {
			out = append(out, name)
		}
		if i = space(raw, valueEnd(raw, i)); raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	if len(out) == 0 {
		return []string{"?"}
	}
	return out
}

// members returns the members of the object at i, unchecked.
func (s *scan) members(i int) []member {
	var list []member
	for i = space(s.text, i+1); s.text[i] != '}'; {
		end := stringEnd(s.text, i)
		m := member{name: unquoted(s.text[i:end]), from: space(s.text, space(s.text, end)+1)}
		m.key, m.at, m.end = plain(m.name), i, valueEnd(s.text, m.from)
		list = append(list, m)
		if i = space(s.text, m.end); s.text[i] == ',' {
			i = space(s.text, i+1)
		}
	}
	return list
}

// nameOf returns the type of an object, else its name, else its first key.
func nameOf(text []byte, list []member) string {
	for _, key := range []string{"type", "name"} {
		for _, m := range list {
			if m.key == key && text[m.from] == '"' {
				if name := unquoted(text[m.from:m.end]); name != "" {
					return name[:min(len(name), 64)]
				}
			}
		}
	}
	if len(list) > 0 {
		return list[0].name[:min(len(list[0].name), 64)]
	}
	return "?"
}
