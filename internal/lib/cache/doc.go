// Package cache stores data that can be fetched again: directories that are filled part by part and
// never changed, and small files. Many processes may use a cache at once, and its size is bounded.
package cache
