package git

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// UninitializedSubmodule returns the path, in its repository, of the submodule that a directory or
// file would be in, if that submodule is not checked out: its directory is empty. It returns "" for
// everything else. It reads only .gitmodules, and runs no program.
func UninitializedSubmodule(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for top := filepath.Dir(path); ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			rel, err := filepath.Rel(top, path)
			if err != nil {
				return ""
			}
			return emptyModule(top, filepath.ToSlash(rel))
		}
		if top == filepath.Dir(top) {
			return ""
		}
	}
}

// emptyModule returns the submodule without files that contains path in the working tree at top.
func emptyModule(top, path string) string {
	file := filepath.Join(top, ".gitmodules")
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	for line := range strings.Lines(string(text)) {
		key, module, _ := strings.Cut(line, "=")
		module = strings.TrimSpace(module)
		if unquoted, err := strconv.Unquote(module); err == nil {
			module = unquoted
		}
		if strings.TrimSpace(key) != "path" || path != module && !strings.HasPrefix(path, module+"/") || !filepath.IsLocal(module) {
			continue
		}
		if entries, err := os.ReadDir(filepath.Join(top, filepath.FromSlash(module))); err == nil && len(entries) == 0 {
			return module
		}
	}
	return ""
}

// SubmoduleHint returns how to get the files below a path that is in a submodule which is not
// checked out; "" if it is in none.
func SubmoduleHint(path string) string {
	module := UninitializedSubmodule(path)
	if module == "" {
		return ""
	}
	return "the git submodule " + safe(module) + " is not checked out: git submodule update --init, or actions/checkout with submodules: true"
}
