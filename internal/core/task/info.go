package task

import "github.com/org/rollout-action/internal/lib/fields"

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
func (t *looseText) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, _ fields.Rules) bool {
	if n.Kind == fields.Text {
		*t = looseText(n.Text)
		return true
	}
	return ignored(d, n, p, "a string")
}

// DecodeNode reads an array of strings.
func (t *looseTexts) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, _ fields.Rules) bool {
	for _, item := range n.Items {
		if item.Kind == fields.Text {
			*t = append(*t, item.Text)
		}
	}
	return n.Kind == fields.List && len(*t) == len(n.Items) || ignored(d, n, p, "an array of strings")
}

// DecodeNode reads an array of {name, email}, or of names.
func (t *looseAuthors) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, _ fields.Rules) bool {
	for _, item := range n.Items {
		text := func(key string) string {
			if value := item.Given(key); value != nil && value.Kind == fields.Text {
				return value.Text
			}
			return ""
		}
		switch item.Kind {
		case fields.Text:
			*t = append(*t, Author{Name: item.Text})
		case fields.Mapping:
			*t = append(*t, Author{text("name"), text("email")})
		}
	}
	return n.Kind == fields.List && len(*t) == len(n.Items) || ignored(d, n, p, "an array of {name, email}")
}

// ignored warns of a value that is ignored. It returns true: the task is valid.
func ignored(d *fields.Decoder, n *fields.Node, p fields.Path, wanted string) bool {
	d.Warn(n.At, "", "%q should be %s and is ignored", p, wanted)
	return true
}
