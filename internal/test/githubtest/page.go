package githubtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	defaultPage = 30
	largestPage = 100
)

// page returns the page that the request asks for, and the Link header for the other pages.
// Source: docs.github.com, "Using pagination in the REST API".
func page[T any](q *request, all []T) ([]T, http.Header) {
	size := positive(q.URL.Query().Get("per_page"), defaultPage)
	size = min(size, largestPage)
	number := positive(q.URL.Query().Get("page"), 1)
	last := max(1, (len(all)+size-1)/size)
	from := min((number-1)*size, len(all))
	to := min(from+size, len(all))

	var links []string
	add := func(rel string, to int) {
		query := q.URL.Query()
		query.Set("page", strconv.Itoa(to))
		links = append(links, fmt.Sprintf(`<%s%s?%s>; rel=%q`, "http://"+q.Host, q.URL.EscapedPath(), query.Encode(), rel))
	}
	if number > 1 {
		add("prev", number-1)
	}
	if number < last {
		add("next", number+1)
		add("last", last)
	}
	if number > 1 {
		add("first", 1)
	}
	header := http.Header{}
	if len(links) > 0 {
		header.Set("Link", strings.Join(links, ", "))
	}
	return all[from:to], header
}

func positive(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return otherwise
	}
	return n
}

// list returns a page as the response.
func list[T any](q *request, all []T, show func(T) map[string]any) reply {
	items, header := page(q, all)
	return reply{status: http.StatusOK, value: shown(items, show), header: header}
}

// counted returns a page as the response, in the form that includes the total count.
func counted[T any](q *request, name string, all []T, show func(T) map[string]any) reply {
	items, header := page(q, all)
	return reply{status: http.StatusOK, header: header, value: map[string]any{
		"total_count": len(all), name: shown(items, show),
	}}
}

func shown[T any](items []T, show func(T) map[string]any) []map[string]any {
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		out = append(out, show(item))
	}
	return out
}
