package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Find returns the dataset with this name and version; an empty version stands for Preferred. The
// error is a *NotFoundError, or a diag.List if the registry lists the dataset twice or with invalid
// names.
func (r *Registry) Find(name, version string) (*Dataset, error) {
	version, err := r.version(name, version)
	if err != nil {
		return nil, err
	}
	var found *Dataset
	for i := range r.Datasets {
		d := &r.Datasets[i]
		if d.Name != name || d.Version != version {
			continue
		}
		if found != nil {
			return nil, diag.List{r.Problem(d.offset, "dataset %s is listed twice", d.Label())}
		}
		found = d
	}
	if problems := r.Check(found); len(problems) > 0 {
		return nil, problems
	}
	return found, nil
}

// version returns the version of a dataset, or Preferred for an empty one. The error is a
// *NotFoundError.
func (r *Registry) version(name, version string) (string, error) {
	versions := r.Versions(name)
	switch {
	case len(versions) == 0:
		return "", &NotFoundError{fmt.Sprintf("there is no dataset %q in %s", untrusted.Line(name), r.Source), hint(name, r.names())}
	case version == "":
		return Preferred(versions), nil
	case len(versions) == 1 && versions[0] == "":
		return "", &NotFoundError{fmt.Sprintf("dataset %q has no versions in %s", untrusted.Line(name), r.Source), "write the name alone"}
	case !slices.Contains(versions, version):
		return "", &NotFoundError{fmt.Sprintf("dataset %q has no version %q in %s", untrusted.Line(name), untrusted.Line(version), r.Source), hint(version, versions)}
	}
	return version, nil
}

// Listed is a dataset of a registry, without its tasks.
type Listed struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Tasks       int    `json:"tasks"`
	Default     bool   `json:"default"` // the version used if none is given
}

// Select returns those of List that labels name, each once; all if there are no labels. A label
// without a version names the one that Find returns. The error is a *NotFoundError.
func (r *Registry) Select(labels []string) ([]Listed, error) {
	list := r.List()
	if len(labels) == 0 {
		return list, nil
	}
	named := map[[2]string]bool{}
	for _, label := range labels {
		name, version := SplitLabel(label)
		version, err := r.version(name, version)
		if err != nil {
			return nil, err
		}
		named[[2]string{name, version}] = true
	}
	return slices.DeleteFunc(list, func(d Listed) bool { return !named[[2]string{d.Name, d.Version}] }), nil
}

// List returns all datasets, sorted by name; the versions of each are in the order of the registry.
// It is never nil.
func (r *Registry) List() []Listed {
	versions := map[string][]string{}
	for i := range r.Datasets {
		d := &r.Datasets[i]
		versions[d.Name] = append(versions[d.Name], d.Version)
	}
	preferred := make(map[string]string, len(versions)) // found once for each name: a registry may have very many versions
	for name, all := range versions {
		preferred[name] = Preferred(all)
	}
	list := make([]Listed, 0, len(r.Datasets))
	for i := range r.Datasets {
		d := &r.Datasets[i]
		list = append(list, Listed{d.Name, d.Version, d.Description, len(d.Tasks), preferred[d.Name] == d.Version})
	}
	slices.SortStableFunc(list, func(x, y Listed) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// Versions returns the versions of a dataset, lowest first.
func (r *Registry) Versions(name string) []string {
	var versions []string
	for i := range r.Datasets {
		if r.Datasets[i].Name == name {
			versions = append(versions, r.Datasets[i].Version)
		}
	}
	slices.SortFunc(versions, compareVersions)
	return slices.Compact(versions)
}

func (r *Registry) names() []string {
	var names []string
	for i := range r.Datasets {
		names = append(names, r.Datasets[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NotFoundError means that the registry does not list the dataset or version.
type NotFoundError struct{ Message, Hint string }

func (e *NotFoundError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// hint suggests a similar name and lists the available ones.
func hint(word string, there []string) string {
	const most = 10
	shown := make([]string, 0, most)
	for _, t := range there[:min(most, len(there))] {
		shown = append(shown, untrusted.Cut(untrusted.Line(t), maxName))
	}
	list := "there are: " + strings.Join(shown, ", ")
	if more := len(there) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	if len(there) == 0 {
		list = "it has none"
	}
	if near := diag.Nearest(word, there); near != "" {
		return fmt.Sprintf("did you mean %q? %s", untrusted.Line(near), list)
	}
	return list
}

// SplitLabel splits name@version. A name may begin with @, as names of packages do.
func SplitLabel(label string) (name, version string) {
	if at := strings.LastIndexByte(label, '@'); at > 0 {
		return label[:at], label[at+1:]
	}
	return label, ""
}
