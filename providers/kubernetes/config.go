package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Problem is an invalid value of environment.provider_config.
type Problem = environment.ConfigProblem

// config is environment.provider_config.
type config struct {
	kubeconfig, context, namespace string

	labels, annotations, nodeSelector           map[string]string
	tolerations                                 []corev1.Toleration
	runtimeClass, priorityClass, serviceAccount string
	imagePullSecrets                            []string
	pod                                         []byte // a strategic merge patch as JSON; nil: none
	podVolumes                                  bool   // the patch has volumes
	scheduleTimeout                             time.Duration
	price                                       price
	reachable                                   []string // kinds of targets
	registry, builder, helperImage              string
	plainHTTP                                   bool
	buildkit                                    registryimage.BuildKit
}

// price is in US dollars.
type price struct{ cpuHour, gibHour float64 }

// defaultScheduleTimeout leaves an autoscaler the time to start a machine.
const defaultScheduleTimeout = 10 * time.Minute

// Keys are the keys of environment.provider_config.
var Keys = []environment.ConfigKey{
	{Name: "context", Doc: "The context of the kubeconfig. Default: its current one, or the cluster in which Rollout itself runs.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "namespace", Doc: "The namespace of the pods. Default: that of the context, or the one in which Rollout itself runs.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "kubeconfig", Doc: "The kubeconfig file. Default: as for kubectl, `$KUBECONFIG` or `~/.kube/config`.", Files: environment.Files{Kind: environment.LocalFiles, Inside: filesOfKubeconfig}},
	{Name: "registry", Doc: "The registry for images that Rollout makes, such as `ghcr.io/org/evals`: those of tasks' Dockerfiles, agents that are installed once, and the helper image. Rollout pushes with the logins of `docker login`, and the cluster must be able to pull from there.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "helper_image", Doc: "The image with Rollout's own program, which runs in each pod. Default: Rollout pushes it to `registry`; without that, a released version uses its own published image.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "builder", Doc: "The builder of Dockerfiles: `docker`, `buildkit` or `sandbox`. Default: the first of these that can be used.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "buildkit", Doc: "How to reach a buildkitd: an address (`tcp://host:port`, `unix://path`, `kube-pod://name`), or `{address, ca_cert, cert, key, server_name}`.", Files: environment.Files{Kind: environment.NoFiles}, Keys: buildkitKeys},
	{Name: "plain_http", Default: "false", Doc: "Whether `registry` may be used without TLS. On this machine (`localhost`, 127.0.0.0/8) it always may.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "labels", Doc: "Labels of each pod, such as `kueue.x-k8s.io/queue-name: evals`.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "annotations", Doc: "Annotations of each pod.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "node_selector", Doc: "Labels that a node must have. Unless it names `kubernetes.io/arch`, that is the architecture of Rollout's program, or the nodes' if Rollout may list them.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "tolerations", Doc: "Taints that do not matter: a list with the fields of a pod's `tolerations`.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "runtime_class", Doc: "The runtime class, such as one for gVisor or Kata Containers.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "priority_class", Doc: "The priority class.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "service_account", Doc: "The service account. Its token is not in the pods.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "image_pull_secrets", Doc: "Secrets with which nodes pull images: a list of names.", Files: environment.Files{Kind: environment.NoFiles}},
	// Paths of nodes (hostPath) are refused in it.
	{Name: "pod", Doc: "Everything else about the pods: a strategic merge patch, as for `kubectl patch`. The container of the trial is `main`.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "schedule_timeout", Default: "10m", Doc: "How long a pod that no node has room for may wait. Pods in a queue (scheduling gates) wait without a limit.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "price", Doc: "The prices of resources in US dollars: `{cpu_hour, gib_hour}`, of one CPU and one GiB of memory for an hour. Default: costs are not known.", Files: environment.Files{Kind: environment.NoFiles}, Keys: priceKeys},
	{Name: "reachable", Doc: "Addresses that pods with a restricted network may reach, because the cluster's network does not forbid it: a list of `node` (servers on the pod's own node) and `api` (the API service). Default: nothing, and Rollout refuses a cluster where they reach it.", Files: environment.Files{Kind: environment.NoFiles}},
}

// buildkitKeys are the keys of buildkit. An address such as unix:///run/buildkit.sock names a
// socket, which no checkout has.
var buildkitKeys = []environment.ConfigKey{
	{Name: "address", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "ca_cert", Files: environment.Files{Kind: environment.LocalFiles}},
	{Name: "cert", Files: environment.Files{Kind: environment.LocalFiles}},
	{Name: "key", Files: environment.Files{Kind: environment.LocalFiles}},
	{Name: "server_name", Files: environment.Files{Kind: environment.NoFiles}},
}

// priceKeys are the keys of price.
var priceKeys = []environment.ConfigKey{
	{Name: "cpu_hour", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "gib_hour", Files: environment.Files{Kind: environment.NoFiles}},
}

// Check returns all problems of an environment.provider_config, sorted by path.
func Check(cfg map[string]any) []Problem {
	_, problems := readConfig(cfg)
	return problems
}

// Unaddressed returns the keys of a valid environment.provider_config that bring in content no
// digest covers.
func Unaddressed(cfg map[string]any) []string {
	c, _ := readConfig(cfg)
	if c.podVolumes {
		return []string{"pod (files of its volumes)"}
	}
	return nil
}

// parseConfig returns the checked configuration; all problems are one error.
func parseConfig(cfg map[string]any) (config, error) {
	c, problems := readConfig(cfg)
	var errs []error
	for _, problem := range problems {
		text := strings.TrimSuffix("environment.provider_config."+problem.Path, ".") + ": " + problem.Message
		if problem.Hint != "" {
			text += " (" + problem.Hint + ")"
		}
		errs = append(errs, errors.New(text))
	}
	return c, errors.Join(errs...)
}

// reader collects problems while it reads values.
type reader struct{ problems []Problem }

func (r *reader) complain(where, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{Path: where, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func readConfig(cfg map[string]any) (config, []Problem) {
	c := config{scheduleTimeout: defaultScheduleTimeout}
	r := &reader{}
	for _, key := range slices.Sorted(maps.Keys(cfg)) {
		value := cfg[key]
		switch key {
		case "context", "kubeconfig", "helper_image":
			setText(&c, key, r.text(key, value))
		case "namespace", "runtime_class", "priority_class", "service_account":
			setText(&c, key, r.name(key, value))
		case "registry":
			c.registry = r.registry(key, value)
		case "builder":
			c.builder = r.choice(key, value, registryimage.Docker, registryimage.BuildKitDaemon, registryimage.Sandbox)
		case "buildkit":
			c.buildkit = r.buildkit(key, value)
		case "plain_http":
			c.plainHTTP = r.truth(key, value)
		case "labels", "annotations", "node_selector":
			setMap(&c, key, r.texts(key, value))
		case "tolerations":
			c.tolerations = r.tolerations(key, value)
		case "image_pull_secrets":
			c.imagePullSecrets = r.names(key, value)
		case "pod":
			c.pod, c.podVolumes = r.pod(key, value)
		case "schedule_timeout":
			c.scheduleTimeout = r.duration(key, value)
		case "price":
			c.price = r.price(key, value)
		case "reachable":
			for i, item := range r.list(key, value) {
				c.reachable = append(c.reachable, r.choice(fmt.Sprintf("%s.%d", key, i), item, acceptable...))
			}
		default:
			r.problems = append(r.problems, environment.UnknownKey(key, "the kubernetes provider knows", environment.ConfigKeyNames(Keys)...))
		}
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return c, r.problems
}

func setText(c *config, key, text string) {
	*map[string]*string{
		"context": &c.context, "kubeconfig": &c.kubeconfig, "helper_image": &c.helperImage, "namespace": &c.namespace,
		"runtime_class": &c.runtimeClass, "priority_class": &c.priorityClass, "service_account": &c.serviceAccount,
	}[key] = text
}

func setMap(c *config, key string, m map[string]string) {
	*map[string]*map[string]string{"labels": &c.labels, "annotations": &c.annotations, "node_selector": &c.nodeSelector}[key] = m
}

func (r *reader) text(where string, value any) string {
	text, ok := value.(string)
	if !ok || text == "" {
		r.complain(where, "", "must be a text")
		return ""
	}
	return text
}

// name reads the name of a Kubernetes object.
func (r *reader) name(where string, value any) string {
	text := r.text(where, value)
	if text != "" {
		for _, problem := range validation.IsDNS1123Subdomain(text) {
			r.complain(where, "", "%q is no name: %s", text, problem)
		}
	}
	return text
}

func (r *reader) registry(where string, value any) string {
	text := r.text(where, value)
	if text != "" {
		if err := registryimage.CheckRegistry(text); err != nil {
			r.complain(where, "", "%v", err)
		}
	}
	return text
}

func (r *reader) choice(where string, value any, known ...string) string {
	text, _ := value.(string)
	if !slices.Contains(known, text) {
		r.complain(where, "", "must be one of %s", strings.Join(known, ", "))
	}
	return text
}

func (r *reader) truth(where string, value any) bool {
	truth, ok := value.(bool)
	if !ok {
		r.complain(where, "", "must be true or false")
	}
	return truth
}

func (r *reader) duration(where string, value any) time.Duration {
	text, _ := value.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.complain(where, "", "must be a duration above 0, such as 10m")
		return defaultScheduleTimeout
	}
	return d
}

func (r *reader) list(where string, value any) []any {
	list, ok := value.([]any)
	if !ok {
		r.complain(where, "", "must be a list")
	}
	return list
}

func (r *reader) names(where string, value any) []string {
	var names []string
	for i, item := range r.list(where, value) {
		names = append(names, r.name(fmt.Sprintf("%s.%d", where, i), item))
	}
	return names
}

// mapping reads a mapping. known, if any, are the keys that it may have.
func (r *reader) mapping(where string, value any, known ...string) map[string]any {
	m, ok := value.(map[string]any)
	if !ok {
		r.complain(where, "", "must be a mapping")
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if len(known) > 0 && !slices.Contains(known, key) {
			r.problems = append(r.problems, environment.UnknownKey(where+"."+key, "it has", known...))
		}
	}
	return m
}

// texts reads labels (of pods or of nodes) or annotations.
func (r *reader) texts(where string, value any) map[string]string {
	out := map[string]string{}
	for key, value := range r.mapping(where, value) {
		text, ok := value.(string)
		if !ok {
			r.complain(where, "put it into quotes", "the value of %s must be a text", key)
			continue
		}
		for _, problem := range validation.IsQualifiedName(key) {
			r.complain(where, "", "%q cannot be a key: %s", key, problem)
		}
		if where != "annotations" {
			for _, problem := range validation.IsValidLabelValue(text) {
				r.complain(where, "", "%q cannot be the value of %s: %s", text, key, problem)
			}
		}
		if where != "node_selector" && isOurs(key) {
			r.complain(where, "", "%s is Rollout's own", key)
		}
		out[key] = text
	}
	slices.SortFunc(r.problems, func(a, b Problem) int { return strings.Compare(a.Path+"\x00"+a.Message, b.Path+"\x00"+b.Message) })
	return out
}

func (r *reader) tolerations(where string, value any) []corev1.Toleration {
	var all []corev1.Toleration
	for i, item := range r.list(where, value) {
		var one corev1.Toleration
		if err := decodeStrictly(item, &one); err != nil {
			r.complain(fmt.Sprintf("%s.%d", where, i), "the fields are those of a pod: key, operator, value, effect, tolerationSeconds", "%v", err)
		}
		all = append(all, one)
	}
	return all
}

func (r *reader) price(where string, value any) price {
	var p price
	for key, value := range r.mapping(where, value, environment.ConfigKeyNames(priceKeys)...) {
		at := map[string]*float64{"cpu_hour": &p.cpuHour, "gib_hour": &p.gibHour}[key]
		if at == nil {
			continue
		}
		usd, ok := number(value)
		if !ok || usd < 0 || math.IsInf(usd, 0) || math.IsNaN(usd) {
			r.complain(where+"."+key, "", "must be an amount of US dollars")
		}
		*at = usd
	}
	return p
}

func number(value any) (float64, bool) {
	if n, ok := value.(float64); ok {
		return n, true
	}
	n, ok := environment.WholeNumber(value)
	return float64(n), ok
}

func (r *reader) buildkit(where string, value any) registryimage.BuildKit {
	var b registryimage.BuildKit
	if text, ok := value.(string); ok && text != "" {
		b.Address = text
		r.checkBuildKit(where, b)
		return b
	}
	fields := map[string]*string{"address": &b.Address, "ca_cert": &b.CACert, "cert": &b.Cert, "key": &b.Key, "server_name": &b.ServerName}
	m := r.mapping(where, value, environment.ConfigKeyNames(buildkitKeys)...)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if at := fields[key]; at != nil {
			*at = r.text(where+"."+key, m[key])
		}
	}
	switch {
	case m == nil:
	case b.Address == "":
		r.complain(where, "such as tcp://buildkitd:1234", "has no address")
	default:
		r.checkBuildKit(where, b)
	}
	return b
}

func (r *reader) checkBuildKit(where string, b registryimage.BuildKit) {
	if err := registryimage.CheckBuildKit(b); err != nil {
		r.complain(where, "", "%v", err)
	}
}

// decodeStrictly converts what a YAML decoder returned; unknown fields are errors.
func decodeStrictly(value, into any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return strictJSON(text, into)
}
