package host

import (
	"strings"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/dataset"
)

// credentialsVariable lists the hosts to which git may send credentials.
const credentialsVariable = "ROLLOUT_GIT_CREDENTIALS"

// NewSource returns a source of datasets. The caller closes it.
func NewSource(vars Variables, guard Guard, out Output) *dataset.Source {
	opts := git.Options{Environ: vars.AllVariables()}
	if hosts := vars.Variable(credentialsVariable); hosts != "" {
		for host := range strings.SplitSeq(hosts, ",") {
			opts.CredentialHosts = append(opts.CredentialHosts, strings.TrimSpace(host))
		}
	}
	s := &dataset.Source{
		Git:    git.New(opts),
		Notify: func(text string) { Linef(out, "datasets: %s", Clean(text)) },
	}
	if guard != nil {
		s.Admit = guard.Admit
	}
	s.Cache, s.CacheErr = OpenCache(vars)
	return s
}
