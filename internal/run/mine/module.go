package mine

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/lib/git"
)

const (
	maxManifest = 1 << 20 // bytes of a file that a plan reads; of larger ones only the name counts
	maxDepth    = 20      // directories above a test file, in which a plan looks for files
)

// byModules finds out how the tests of the promising candidates run, from the few files of the
// commits before that say so. It drops those whose tests no runner runs.
func byModules(ctx context.Context, repo *git.Local, candidates []Candidate) error {
	wanted := map[string]bool{} // COMMIT:NAME
	for i := range candidates {
		if c := &candidates[i]; c.Reason == Promising {
			for _, name := range c.manifests() {
				wanted[c.Parent+":"+name] = true
			}
		}
	}
	found, err := repo.Find(ctx, slices.Sorted(maps.Keys(wanted)))
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, blob := range found {
		if blob.Bytes <= maxManifest {
			ids[blob.ID] = true
		}
	}
	texts, err := repo.Contents(ctx, slices.Sorted(maps.Keys(ids)))
	if err != nil {
		return err
	}
	for i := range candidates {
		c := &candidates[i]
		if c.Reason != Promising {
			continue
		}
		m := module{dir: ".", manifests: map[string]string{}, language: c.language}
		for _, name := range c.manifests() {
			if blob, there := found[c.Parent+":"+name]; there {
				m.manifests[name] = string(texts[blob.ID])
			}
		}
		c.byModule(m)
	}
	return nil
}

// manifests returns the names of the files that may say how the candidate's tests run, whether they
// exist or not.
func (c *Candidate) manifests() []string {
	dirs := map[string]bool{".": true}
	for _, test := range c.tests {
		for dir, depth := path.Dir(test), 0; dir != "." && depth < maxDepth; dir, depth = path.Dir(dir), depth+1 {
			dirs[dir] = true
		}
	}
	var names []string
	for dir := range dirs {
		for _, of := range []string{c.runner, "make"} {
			for _, name := range slices.Concat(runners[of].markers, runners[of].reads) {
				names = append(names, path.Join(dir, name))
			}
		}
	}
	return unique(names)
}

// byModule sets how the candidate's tests run, or drops it.
func (c *Candidate) byModule(root module) {
	r := runners[c.runner]
	m := root.around(c.tests[0], r)
	for _, name := range c.tests {
		if other := root.around(name, r); other.dir != m.dir {
			c.drop(Several, "%s and %s", m.dir, other.dir)
			return
		}
	}
	c.module = m
	c.plan = r.plan(m, c.relative(c.tests))
	if c.plan.lacks != "" && c.runner != "make" {
		makefile := root.around(c.tests[0], runners["make"])
		if p := planMake(makefile, nil); p.lacks == "" {
			c.runner, c.plan, m, c.module = "make", p, makefile, makefile
		}
	}
	c.plan.dir, c.plan.at = cmp.Or(c.plan.dir, m.dir), cmp.Or(c.plan.at, m.dir)
	switch {
	case c.plan.lacks != "":
		c.drop(NoRunner, "%s", c.plan.lacks)
	case !plainPath.MatchString(c.plan.dir), !plainPath.MatchString(c.plan.at):
		c.drop(OddName, "the module's directory cannot stand in a Dockerfile")
	}
}
