package task

import "fmt"

// Info is [task], a description that changes nothing. Keys that cannot be read are left out.
type Info struct {
	Name        string // "org/name", as in Harbor's registry
	Version     string
	Description string
	Authors     []Author
	Keywords    []string
}

// Author is one of a task's authors.
type Author struct{ Name, Email string }

// info reads a description. Problems in it are only warnings.
func (t table) info() Info {
	var info Info
	for key, to := range map[string]*string{"name": &info.Name, "version": &info.Version, "description": &info.Description} {
		if text, ok := t.values[key].(string); ok {
			*to = text
		} else if t.has(key) {
			t.unread(key, "a string")
		}
	}
	keywords, _ := t.values["keywords"].([]any)
	for _, k := range keywords {
		if text, ok := k.(string); ok {
			info.Keywords = append(info.Keywords, text)
		}
	}
	if len(info.Keywords) < len(keywords) || keywords == nil && t.has("keywords") {
		t.unread("keywords", "an array of strings")
	}
	authors, _ := t.values["authors"].([]any)
	for _, a := range authors {
		switch a := a.(type) {
		case string:
			info.Authors = append(info.Authors, Author{Name: a})
		case map[string]any:
			var author Author
			author.Name, _ = a["name"].(string)
			author.Email, _ = a["email"].(string)
			info.Authors = append(info.Authors, author)
		}
	}
	if len(info.Authors) < len(authors) || authors == nil && t.has("authors") {
		t.unread("authors", "an array of {name, email}")
	}
	return info
}

func (t table) unread(key, want string) {
	t.warning(key, fmt.Sprintf("%q should be %s and is ignored", t.name(key), want), "")
}
