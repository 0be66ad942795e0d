// Package registry reads lists of datasets: registry.json, on disk or behind a URL. It knows which
// tasks a dataset has and where they are, not how they are fetched.
package registry
