// Package registry reads lists of datasets: registry.json, on disk or behind a URL. It returns the
// tasks of a dataset and their locations, and does not fetch them.
package registry
