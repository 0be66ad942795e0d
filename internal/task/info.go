package task

import "github.com/org/rollout-action/internal/keys"

// Info is [task], a description that changes nothing. Keys that cannot be read are left out.
type Info struct {
	Name        looseText    `toml:"name" doc:"In Harbor's registry: org/name."`
	Version     looseText    `toml:"version" doc:"The version of the task."`
	Description looseText    `toml:"description" doc:"What the task is about."`
	Authors     looseAuthors `toml:"authors" doc:"A list of {name, email}."`
	Keywords    looseTexts   `toml:"keywords" doc:"A list of words to find the task by."`
}

// Author is one of a task's authors.
type Author struct{ Name, Email string }

// Values that only warn if they are of the wrong type.
type (
	looseText    string
	looseTexts   []string
	looseAuthors []Author
)

// DecodeNode reads text.
func (t *looseText) DecodeNode(d *keys.Decoder, n *keys.Node, p keys.Path, _ keys.Rules) bool {
	if n.Kind == keys.Text {
		*t = looseText(n.Text)
		return true
	}
	return ignored(d, n, p, "a string")
}

// DecodeNode reads an array of strings.
func (t *looseTexts) DecodeNode(d *keys.Decoder, n *keys.Node, p keys.Path, _ keys.Rules) bool {
	for _, item := range n.Items {
		if item.Kind == keys.Text {
			*t = append(*t, item.Text)
		}
	}
	return n.Kind == keys.List && len(*t) == len(n.Items) || ignored(d, n, p, "an array of strings")
}

// DecodeNode reads an array of {name, email}, or of names.
func (t *looseAuthors) DecodeNode(d *keys.Decoder, n *keys.Node, p keys.Path, _ keys.Rules) bool {
	for _, item := range n.Items {
		text := func(key string) string {
			if value := item.Given(key); value != nil && value.Kind == keys.Text {
				return value.Text
			}
			return ""
		}
		switch item.Kind {
		case keys.Text:
			*t = append(*t, Author{Name: item.Text})
		case keys.Mapping:
			*t = append(*t, Author{text("name"), text("email")})
		}
	}
	return n.Kind == keys.List && len(*t) == len(n.Items) || ignored(d, n, p, "an array of {name, email}")
}

// ignored warns of a value that is ignored. It returns true: the task is valid.
func ignored(d *keys.Decoder, n *keys.Node, p keys.Path, wanted string) bool {
	d.Warn(n.At, "", "%q should be %s and is ignored", p, wanted)
	return true
}
