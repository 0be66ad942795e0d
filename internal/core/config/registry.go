package config

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// registry checks a dataset of a registry. It returns the registry's absolute path or its URL.
func (c datasetsCheck) registry(ds *Dataset, at fields.Path) string {
	reg, key := ds.Registry, at.Child("registry")
	switch {
	case c.BadBelow(key):
	case ds.Path != "":
		c.Problem(key, "keep one of them", "%s has a path as well as a registry", at)
	case reg.Path == "" && reg.URL == "":
		c.Problem(key, "add url: or path:", "%s has neither path nor url", key)
	case reg.Path != "" && reg.URL != "":
		c.Problem(key, "keep one of them", "%s has a path as well as a url", key)
	case ds.Name == "":
		c.Problem(at, "rollout datasets ls --registry "+untrusted.ShellPath(c.shownRegistry(reg))+" lists them", "%s needs the name of a dataset in the registry", at)
	case isRepository(reg.URL):
		return reg.URL
	case reg.URL != "":
		c.registryURL(reg.URL, key.Child("url"))
		return reg.URL
	default:
		path := c.admit(resolve(c.source.dir, reg.Path))
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			hint := c.elsewhereFile(reg.Path)
			if strings.Contains(reg.Path, "://") {
				hint = "write it as url:"
			}
			c.Problem(key.Child("path"), hint, "there is no registry %s", path)
		}
		return path
	}
	return ""
}

// shownRegistry returns a registry in the form that the command line takes.
func (c datasetsCheck) shownRegistry(reg *Registry) string {
	if reg.URL != "" || filepath.IsAbs(reg.Path) {
		return reg.URL + reg.Path
	}
	return filepath.Join(filepath.Dir(c.source.file), reg.Path)
}

// isRepository reports whether the address of a registry is that of a repository with a
// dataset.toml.
func isRepository(address string) bool {
	_, _, ok := git.Repository(address)
	return ok
}

func (c datasetsCheck) registryURL(text string, p fields.Path) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		c.Problem(p, "write it like https://example.org/registry.json, or org/name@ref for a repository with a dataset.toml", "%s is not an http or https URL", p)
		return
	}
	if u.User != nil {
		c.Problem(p, "use a file, and path:", "%s contains a password, which would end up in %s", p, result.ConfigFile)
	}
}
