package kubernetes

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/org/rollout-action/internal/core/environment"
)

// silence keeps client-go from logging to stderr.
var silence = sync.OnceFunc(func() {
	klog.SetLogger(logr.Discard())
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil //nolint:reassign // it is there to be set
})

// connection holds the client configuration and the namespace of a cluster.
type connection struct {
	config    *rest.Config
	namespace string
	about     string // for messages: the context and the server
}

// findCluster returns the cluster that a configuration names, by the rules of kubectl: the
// kubeconfig files with their contexts and exec plugins, or the service account of the pod in which
// this process runs.
func (c config) findCluster() (connection, error) {
	silence()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.WarnIfAllMissing = false
	if c.kubeconfig != "" {
		rules.ExplicitPath = expandHome(c.kubeconfig)
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	overrides.Context.Namespace = c.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	rest, err := loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			err := fmt.Errorf("there is no Kubernetes cluster: no kubeconfig names one (looked for %s), and this is no pod", strings.Join(rules.GetLoadingPrecedence(), ", "))
			return connection{}, &environment.Error{
				Kind: environment.KindUnavailable, Unconfigured: true, Err: err, Hint: "set KUBECONFIG, or run rollout in a pod with a service account",
			}
		}
		return connection{}, unavailable("see kubectl config get-contexts", "find the Kubernetes cluster: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return connection{}, unavailable("set namespace in provider_config", "find the namespace: %w", err)
	}
	about := "the Kubernetes cluster at " + rest.Host
	if raw, err := loader.RawConfig(); err == nil {
		name := c.context
		if name == "" {
			name = raw.CurrentContext
		}
		if name != "" {
			about += " (context " + name + ")"
		}
	}
	return connection{config: rest, namespace: namespace, about: about}, nil
}

func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	home, err := os.UserHomeDir()
	if !ok || err != nil {
		return path
	}
	return filepath.Join(home, rest)
}
