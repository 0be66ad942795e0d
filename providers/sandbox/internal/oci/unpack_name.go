//go:build linux

package oci

import (
	"errors"
	"path"
	"strings"
)

// Names that mark files of lower layers as removed. Source: the OCI image specification, layer.md,
// "Whiteouts".
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
	aufsPrefix     = ".wh..wh." // aufs's own files (obsolete), except opaqueName
)

// entryKind classifies an entry by its name.
type entryKind int

const (
	plain entryKind = iota
	whiteout
	opaqueMark
	aufsData
)

// relativeName returns name relative to the layer's root: "." or a clean path. Archives name files
// "x", "./x" or "/x".
func relativeName(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", errors.New("the name leads outside of the layer")
	}
	return clean, nil
}

// kindOf returns the kind of an entry from its name, as relativeName returns it.
func kindOf(name string) (entryKind, error) {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		base := path.Base(dir)
		if strings.HasPrefix(base, aufsPrefix) {
			return aufsData, nil
		}
		if strings.HasPrefix(base, whiteoutPrefix) {
			return plain, errors.New("a whiteout cannot be a directory")
		}
	}
	base := path.Base(name)
	switch hidden, marked := strings.CutPrefix(base, whiteoutPrefix); {
	case !marked:
		return plain, nil
	case base == opaqueName:
		return opaqueMark, nil
	case strings.HasPrefix(base, aufsPrefix):
		return aufsData, nil
	case hidden == "" || hidden == "." || hidden == "..":
		return plain, errors.New("a whiteout without the name of a file")
	default:
		return whiteout, nil
	}
}
