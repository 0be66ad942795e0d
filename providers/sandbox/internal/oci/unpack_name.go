//go:build linux

package oci

import (
	"errors"
	"path"
	"strings"
)

// How layers say that files of the layers below are gone. Source: the OCI image specification, layer.md,
// "Whiteouts".
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
	aufsPrefix     = ".wh..wh." // besides opaqueName: the bookkeeping of a file system that nobody uses any more
)

// entryKind is what the name of an entry says about it.
type entryKind int

const (
	plain entryKind = iota
	whiteout
	opaqueMark
	aufsData
)

// inside is name relative to the layer's top: "." or a clean path. Archives name files "x", "./x" or "/x".
func inside(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", errors.New("the name leads out of the layer")
	}
	return clean, nil
}

// kindOf looks for the marks of whiteouts in a name of inside's.
func kindOf(name string) (entryKind, error) {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		base := path.Base(dir)
		if strings.HasPrefix(base, aufsPrefix) {
			return aufsData, nil
		}
		if strings.HasPrefix(base, whiteoutPrefix) {
			return plain, errors.New("a whiteout cannot be a folder")
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
