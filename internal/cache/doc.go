// Package cache keeps what can be had again: folders that are filled part by part and never changed, and small files. It
// is safe with many processes at once, and bounded by size. It does not know what it keeps.
package cache
