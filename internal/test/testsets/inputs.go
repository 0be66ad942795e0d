package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tree is a checkout: its packages, and a digest of each file by its path from the top, with
// slashes.
type tree struct {
	packages map[string]*listed
	module   string // the language version in go.mod
	digests  map[string]string
	byDir    map[string][]string
}

// trees has the checkouts that were read, by their directories: go list takes seconds.
var trees = map[string]*tree{}

// treeHere returns the checkout in the working directory, as it was at the first call.
func treeHere() (*tree, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if trees[dir] == nil {
		t, err := readTree()
		if err != nil {
			return nil, err
		}
		trees[dir] = t
	}
	return trees[dir], nil
}

// readTree reads the checkout in the working directory.
func readTree() (*tree, error) {
	packages, err := list()
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(context.Background(), "go", "mod", "edit", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("go mod edit -json: %w", err)
	}
	var mod struct {
		Go, Toolchain string
		Godebug       any
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("go mod edit -json: %w", err)
	}
	version, err := exec.CommandContext(context.Background(), "go", "version").Output()
	if err != nil {
		return nil, fmt.Errorf("go version: %w", err)
	}
	t := &tree{packages: packages, module: fmt.Sprintln(strings.TrimSpace(string(version)), mod), digests: map[string]string{}, byDir: map[string][]string{}}
	files, err := listFiles()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if t.digests[file], err = digestOf(file); err != nil {
			return nil, err
		}
		t.byDir[path.Dir(file)] = append(t.byDir[path.Dir(file)], file)
	}
	return t, nil
}

// listFiles returns the files of the checkout that git does not ignore; without .git, all files.
func listFiles() ([]string, error) {
	if _, err := os.Stat(".git"); err == nil {
		// A checkout may belong to another user than root, who runs CI.
		out, err := exec.CommandContext(context.Background(), "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
		if err != nil {
			return nil, fmt.Errorf("git ls-files: %w", err)
		}
		var files []string
		for name := range bytes.SplitSeq(bytes.TrimRight(out, "\x00"), []byte{0}) {
			if _, err := os.Lstat(string(name)); err == nil { // it may have been removed without a commit
				files = append(files, string(name))
			}
		}
		return files, nil
	}
	var files []string
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, filepath.ToSlash(file))
		}
		return err
	})
	return files, err
}

// digestOf returns a digest of a file's kind, executable bit and content.
func digestOf(file string) (string, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	var content []byte
	switch {
	case info.Mode().IsRegular():
		content, err = os.ReadFile(file)
	case info.Mode()&fs.ModeSymlink != 0:
		var target string
		target, err = os.Readlink(file)
		content = []byte(target)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v\n%s", info.Mode().Type(), info.Mode()&0o111 != 0, content))
	return hex.EncodeToString(sum[:]), nil
}

// inputs returns the files that a part depends on, sorted, and the modules, each with its version.
func (t *tree) inputs(p part) (files, modules []string, err error) {
	chosen, versions := map[string]bool{}, map[string]bool{}
	for _, path := range p.tests {
		binary := t.packages[path+".test"]
		if binary == nil {
			return nil, nil, fmt.Errorf("the part %s: %s has no tests", p.name, path)
		}
		if err := t.addPackages(binary.Deps, chosen, versions); err != nil {
			return nil, nil, err
		}
		for _, file := range t.below(local(path)[2:]) {
			chosen[file] = true
		}
	}
	for _, path := range p.built {
		program := t.packages[path]
		if program == nil {
			return nil, nil, fmt.Errorf("the part %s: there is no package %s", p.name, path)
		}
		if err := t.addPackages(append([]string{path}, program.Deps...), chosen, versions); err != nil {
			return nil, nil, err
		}
	}
	if err := t.addPackages(p.code, chosen, versions); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Concat(always, p.reads) {
		found := false
		for file := range t.digests {
			if name == everything || file == name || strings.HasPrefix(file, name+"/") {
				chosen[file], found = true, true
			}
		}
		if !found {
			return nil, nil, fmt.Errorf("the part %s: there is no %s", p.name, name)
		}
	}
	return keys(chosen), keys(versions), nil
}

// addPackages adds the files that packages are built from, whatever the system and tags, and the
// versions of modules.
func (t *tree) addPackages(paths []string, files, versions map[string]bool) error {
	for _, name := range paths {
		name, _, _ = strings.Cut(name, " ") // "x [x.test]" is x built for its test
		if strings.HasSuffix(name, "_test") {
			continue // of the package itself, whose whole directory counts
		}
		p := t.packages[name]
		switch {
		case p == nil:
			return fmt.Errorf("go list has no package %s", name)
		case p.Standard || strings.HasSuffix(name, ".test"):
		case name != module && !strings.HasPrefix(name, module+"/"):
			if p.Module == nil {
				return fmt.Errorf("go list has no module of %s", name)
			}
			versions[p.Module.String()] = true
		default:
			dir := local(name)[2:]
			for _, file := range t.byDir[dir] {
				if !strings.HasSuffix(file, "_test.go") {
					files[file] = true
				}
			}
			for _, embedded := range p.EmbedFiles {
				if file := path.Join(dir, embedded); t.digests[file] != "" { // git ignores it if a program generates it
					files[file] = true
				}
			}
		}
	}
	return nil
}

// below returns the files of a package's directory and of its subdirectories that are not packages,
// such as testdata.
func (t *tree) below(dir string) []string {
	var files []string
	for of, names := range t.byDir {
		inside := of == dir
		for d := of; !inside && strings.HasPrefix(d, dir+"/"); d = path.Dir(d) {
			if p := t.packages[path.Join(module, d)]; p != nil {
				break
			}
			inside = path.Dir(d) == dir
		}
		if inside {
			files = append(files, names...)
		}
	}
	return files
}

// digest returns the digest of all inputs of a part and of machine, which describes the machine.
func (t *tree) digest(p part, machine string) (string, error) {
	files, modules, err := t.inputs(p)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, p.name, machine, t.module, modules)
	for _, file := range files {
		fmt.Fprintln(sum, file, t.digests[file])
	}
	if p.names {
		fmt.Fprintln(sum, keys(t.digests))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// keys returns the keys of a map, sorted.
func keys[V any](m map[string]V) []string {
	var all []string
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}
