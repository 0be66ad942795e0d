package apijson

import (
	"net/http"
)

// Object is a JSON object.
type Object = map[string]any

// Pieces splits a text as a model's stream does. The pieces are whole runes.
func Pieces(text string) []string {
	const size = 24
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// Data returns an event whose lines end with end.
func Data(v any, end string) []byte {
	return []byte("data: " + string(JSON(v)) + end + end)
}

// Named returns an event with a name, which is the type of its data, too.
func Named(name string, v Object) []byte {
	v["type"] = name
	return []byte("event: " + name + "\ndata: " + string(JSON(v)) + "\n\n")
}

// ByStatus returns the name for a status. client and server are the names for other statuses, below
// and from 500.
func ByStatus(names map[int]string, status int, client, server string) string {
	switch name := names[status]; {
	case name != "":
		return name
	case status >= http.StatusInternalServerError:
		return server
	}
	return client
}
