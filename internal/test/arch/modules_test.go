package arch

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of "+dependenciesPage)

const (
	dependenciesPage = "docs/internals/dependencies.md"
	tableBegin       = "<!-- The table is generated: go test ./internal/test/arch -update -->\n"
	tableEnd         = "<!-- end of the table -->\n"
)

// dependency is a third-party module, or some of its packages, with the packages of this module
// that may import it.
type dependency struct {
	// paths are import paths, each including all paths below it. The longest path that matches an
	// import counts.
	paths []string
	use   string // its purpose in Rollout
	why   string // why this one was chosen
	// packages may import it outside of their tests; x/... stands for x and those below it. Tests
	// may import every module in the table.
	packages []string
	// testsOnly: the rollout binary must not contain it. Its packages are test helpers.
	testsOnly bool
}

// dependencies are all third-party packages that this module imports, and why.
var dependencies = []dependency{
	{
		paths:    []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		use:      "commands, help, shell completion",
		why:      "Users know it from gh, kubectl and docker.",
		packages: []string{"internal/cli", "internal/cli/command", "internal/cli/flags", "internal/cli/look", "internal/cli/prove", "internal/cli/run", "internal/cli/setup"},
	},
	{
		paths:    []string{"github.com/docker/docker"},
		use:      "the client of the Docker engine",
		why:      "It negotiates every API version since 1.24. The API of its successor still changes.",
		packages: []string{"providers/docker", "providers/internal/buildkit", "providers/sandbox", "providers/sandbox/internal/oci", "bench", "internal/test/testenv"},
	},
	{
		paths:    []string{"github.com/docker/cli/cli/connhelper"},
		use:      "`ssh://` hosts",
		why:      "It connects as the `docker` command does.",
		packages: []string{"providers/docker"},
	},
	{
		paths:    []string{"github.com/docker/go-connections"},
		use:      "TLS to an engine",
		why:      "The engine's client uses it.",
		packages: []string{"providers/docker"},
	},
	{
		paths:    []string{"github.com/containerd/errdefs"},
		use:      "the types of the engine's errors",
		why:      "The client returns them, so the text of an error is never searched.",
		packages: []string{"providers/docker", "providers/sandbox/internal/oci"},
	},
	{
		paths: []string{"gvisor.dev/gvisor"},
		use:   "the TCP/IP stack at the other end of a sandbox's network device (`tcpip`)",
		why: "gVisor itself, Tailscale and podman's machines run on it. Not gvisor-tap-vsock: its gateway has an HTTP API, DHCP " +
			"and port forwards, has no bounds, and reaches the machine's localhost.",
		packages: []string{"providers/sandbox/internal/usernet"},
	},
	{
		paths:    []string{"golang.org/x/net/bpf"},
		use:      "assembling seccomp filters",
		why:      "It has the instructions by name. Libraries for seccomp filter whole processes; a sandbox filters one thread.",
		packages: []string{"providers/internal/confine"},
	},
	{
		paths:    []string{"golang.org/x/net/dns/dnsmessage"},
		use:      "answers of name servers",
		why:      "It is Go's own parser of DNS messages.",
		packages: []string{"providers/sandbox/internal/usernet", "internal/core/environment/environmenttest"},
	},
	{
		paths:    []string{"golang.org/x/net/netutil"},
		use:      "a bound on the connections of the filtering proxy and of a trial's gateway",
		why:      "The Go project maintains it.",
		packages: []string{"internal/lib/egress", "internal/model/gateway"},
	},
	{
		paths:    []string{"github.com/containerd/platforms"},
		use:      "`--platform` in Dockerfiles for the sandbox",
		why:      "BuildKit uses it.",
		packages: []string{"providers/sandbox/internal/dockerfile"},
	},
	{
		paths:    []string{"github.com/klauspost/compress"},
		use:      "compressed layers, archives that `ADD` unpacks, compressed requests to models and answers of them, the trials of large jobs in memory",
		why:      "BuildKit and containerd use it; the standard library has no zstd.",
		packages: []string{"providers/sandbox/internal/decompress", "providers/internal/registryimage", "internal/model/coding", "internal/lib/packing"},
	},
	{
		paths:    []string{"github.com/andybalholm/brotli"},
		use:      "answers of models that are compressed with br although the client did not ask for it",
		why:      "It is all Go, and widely used; the standard library has no brotli. Clients that call a model without a gateway decode br.",
		packages: []string{"internal/model/coding"},
	},
	{
		paths:    []string{"github.com/tidwall/gjson", "github.com/tidwall/sjson"},
		use:      "reading requests and answers of models, and changing the name of the model in them",
		why:      "They change one value and leave all other bytes as they are: a decoder that writes anew breaks signed blocks.",
		packages: []string{"internal/model/...", "internal/run/shell"},
	},
	{
		paths: []string{
			"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/exporters/otlp/otlptrace",
			"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", "go.opentelemetry.io/proto/otlp",
		},
		use:      "spans of trials for a collector",
		why:      "It is OpenTelemetry's own SDK; BuildKit's client brings all of it but the exporter.",
		packages: []string{"internal/output/telemetry"},
	},
	{
		paths: []string{"github.com/moby/buildkit/frontend/dockerfile"},
		use:   "parsing Dockerfiles",
		why:   "It is the parser of the engine's builder.",
		packages: []string{
			"providers/internal/buildkit", "internal/test/fake", "providers/sandbox/internal/dockerfile", "providers/modal", "providers/internal/imagestest", "internal/run/prove",
		},
	},
	{
		paths:    []string{"github.com/moby/buildkit"},
		use:      "builds with BuildKit, with their registry logins",
		why:      "It is the engine's own builder, called in process: `docker buildx` need not be installed.",
		packages: []string{"providers/docker", "providers/internal/buildkit", "providers/internal/registryimage"},
	},
	{
		paths:    []string{"github.com/tonistiigi/fsutil"},
		use:      "the build context that BuildKit reads; its metadata of files",
		why:      "It is the type in BuildKit's API.",
		packages: []string{"providers/internal/buildkit", "providers/internal/buildcontext", "providers/modal", "providers/sandbox/internal/sources"},
	},
	{
		paths:    []string{"google.golang.org/grpc"},
		use:      "the connections to BuildKit and Modal, and their error codes",
		why:      "Their APIs are gRPC.",
		packages: []string{"providers/docker", "providers/internal/buildkit", "providers/internal/registryimage", "providers/modal", "providers/modal/modaltest"},
	},
	{
		paths:    []string{"google.golang.org/protobuf"},
		use:      "strictness of the service that Modal's tests use",
		why:      "It is the runtime of all generated messages.",
		packages: []string{"providers/modal/modaltest"},
	},
	{
		paths: []string{"github.com/modal-labs/modal-client/go"},
		use:   "the client of Modal's API",
		why: "It is Modal's own, and knows which calls to repeat and where to resume a stream. It adds 9 MB to a program of 69 MB. A client " +
			"generated from the .proto alone would need the same messages, which are most of that, and those rules anew.",
		packages: []string{"providers/modal", "providers/modal/modaltest"},
	},
	{
		paths: []string{"github.com/moby/docker-image-spec"},
		use:   "HEALTHCHECK and other extensions in images' configurations",
		why:   "It has the types that BuildKit and the engine's client use.",
		packages: []string{
			"providers/internal/registryimage", "providers/sandbox", "providers/sandbox/internal/dockerfile", "providers/sandbox/internal/machine",
			"providers/sandbox/internal/oci",
		},
	},
	{
		paths:    []string{"github.com/moby/patternmatcher"},
		use:      "`.dockerignore`",
		why:      "It has the engine's own rules.",
		packages: []string{"providers/internal/buildcontext", "providers/sandbox/internal/dockerfile"},
	},
	{
		paths:    []string{"github.com/opencontainers/go-digest"},
		use:      "digests of builds",
		why:      "It is the type in BuildKit's API.",
		packages: []string{"providers/internal/buildkit"},
	},
	{
		paths: []string{"github.com/google/go-containerregistry"},
		use:   "credentials for pulls; reading and pushing images; the registry that tests pull from",
		why:   "It reads `~/.docker/config.json` and runs its credential helpers without the docker command.",
		packages: []string{
			"providers/docker", "providers/internal/buildkit", "providers/internal/distribution", "providers/internal/registryimage", "providers/kubernetes/kubernetestest", "providers/sandbox/internal/oci",
			"internal/test/testregistry",
		},
	},
	{
		paths:    []string{"github.com/hashicorp/yamux"},
		use:      "many connections over the streams of one exec: the relay in a container",
		why:      "It is small, needs no HTTP in the container, and serves Consul and Nomad for the same purpose.",
		packages: []string{"providers/docker/internal/relay", "providers/internal/podinit"},
	},
	{
		paths:    []string{"github.com/gofrs/flock"},
		use:      "one build of an image, or of a layer, among many processes; drafts of the sandbox's store; one process for a job's directory",
		why:      "It locks files on every system.",
		packages: []string{"providers/docker", "providers/kubernetes", "providers/sandbox", "providers/apple", "internal/run/job", "internal/lib/cache"},
	},
	{
		paths:    []string{"github.com/bmatcuk/doublestar/v4"},
		use:      "globs with ** in an agent's files and in affects, and the patterns of .gitignore files",
		why:      "It matches paths like git and has no dependencies. go-git's gitignore package would bring fifteen modules.",
		packages: []string{"internal/run/trial/agentfiles", "internal/core/config"},
	},
	{
		paths:    []string{"github.com/sirupsen/logrus"},
		use:      "silencing what a dependency logs",
		why:      "docker/cli logs with it.",
		packages: []string{"providers/docker"},
	},
	{
		paths:    []string{"go.yaml.in/yaml/v3"},
		use:      "job files, those of Harbor, presets of agents, permissions of a workflow, places in docker-compose.yaml, tasks of terminal-bench before version 2",
		why:      "Its nodes have line and column. The YAML organisation maintains it.",
		packages: []string{"internal/core/config", "internal/core/agent/presets", "internal/core/compose", "internal/app/doctor", "internal/core/task/terminalbench", "internal/app/harborjob", "internal/lib/aliases"},
	},
	{
		paths: []string{"github.com/compose-spec/compose-go/v2"},
		use:   "docker-compose.yaml of tasks: short forms, merges, variables, its schema",
		why: "docker compose itself reads files with it. It gets the text alone and opens no file; keys are admitted one by one before. " +
			"It adds 2.2 MB to the binary (2 %), and four small modules.",
		packages: []string{"internal/core/compose"},
	},
	{
		paths:    []string{"github.com/pelletier/go-toml/v2"},
		use:      "task.toml, dataset.toml, lint.toml, and Codex's settings",
		why:      "It has the positions of keys and errors.",
		packages: []string{"internal/core/task", "internal/app/scaffold", "internal/run/prove", "internal/run/registry"},
	},
	{
		paths:    []string{"k8s.io/apimachinery"},
		use:      "quantities (`resource`); the types, errors and patches of Kubernetes' API",
		why:      "The specification names Kubernetes' rules; this is their code.",
		packages: []string{"bench", "internal/lib/quantity", "providers/kubernetes", "providers/kubernetes/internal/podservices", "providers/kubernetes/kubernetestest"},
	},
	{
		paths: []string{"k8s.io/client-go", "k8s.io/api", "k8s.io/streaming", "sigs.k8s.io/json"},
		use:   "the client of Kubernetes' API: kubeconfigs and their plugins, requests, the watch, commands in pods",
		why: "It reads kubeconfigs as kubectl does, and knows how requests, watches and streams fail. Only `rest`, `tools` and the types that " +
			"are used: the client with all types would make the program much larger.",
		packages: []string{"bench", "providers/kubernetes", "providers/kubernetes/internal/podservices", "providers/kubernetes/kubernetestest"},
	},
	{
		paths:    []string{"k8s.io/klog/v2", "github.com/go-logr/logr"},
		use:      "silencing what a dependency logs",
		why:      "client-go logs with it.",
		packages: []string{"providers/kubernetes"},
	},
	{
		paths: []string{"github.com/charmbracelet/lipgloss", "github.com/muesli/termenv"},
		use:   "colours and tables on terminals",
		why: "They handle wide characters. Not bubbletea: it asks the terminal questions before `main` runs, which costs every " +
			"command seconds on a terminal that does not answer.",
		packages: []string{"internal/output/termtext", "internal/output/summary", "internal/output/ui"},
	},
	{
		paths:    []string{"github.com/charmbracelet/x/ansi"},
		use:      "widths of text, and removing escape sequences",
		why:      "lipgloss uses it.",
		packages: []string{"internal/output/termtext", "internal/output/summary", "internal/output/ui", "internal/run/trial/failure", "internal/lib/untrusted"},
	},
	{
		paths:    []string{"mvdan.cc/sh/v3"},
		use:      "the fake provider's bash; reading the scripts of tasks and agents",
		why:      "It is a whole shell in Go, whose files and programs can be replaced.",
		packages: []string{"internal/test/fake", "internal/run/prove", "internal/core/config", "internal/core/agent/presets"},
	},
	{
		paths:    []string{"github.com/minio/minio-go/v7", "github.com/minio/minio-go/v7/pkg/credentials"},
		use:      "signed URLs of objects in S3",
		why:      "It serves every service with S3's API, and finds credentials as Amazon's tools do.",
		packages: []string{"internal/lib/fetch"},
	},
	{
		paths: []string{"github.com/google/go-github/v66"},
		use:   "GitHub's API",
		why: "It has types, pages and Enterprise addresses of the whole API. Rollout waits and retries below it, because it " +
			"fails where Rollout waits. Version 84 needs no change of ours, but makes the binary 1.2 MB larger and has nothing that Rollout needs.",
		packages: []string{"internal/forge/github"},
	},
	{
		paths: []string{"github.com/sethvargo/go-githubactions"},
		use:   "masks and annotations of the Action's step, and its inputs",
		why: "It has the runner's rules for names and escapes. Its file writers are not used: they have a fixed delimiter, and " +
			"they panic.",
		packages: []string{"internal/action"},
	},
	{
		paths:    []string{"github.com/jstemmer/go-junit-report/v2"},
		use:      "JUnit XML (`junit`)",
		why:      "Its types have the common elements. Rollout's own add flaky and repeated attempts.",
		packages: []string{"reporters/junit"},
	},
	{
		paths:    []string{"gonum.org/v1/gonum/mathext"},
		use:      "tails of Student's and the binomial distribution",
		why:      "It is the maintained numerical library. Only this package, because `stat/distuv` brings matrices along.",
		packages: []string{"internal/core/paired"},
	},
	{
		paths:    []string{"github.com/go-json-experiment/json"},
		use:      "reading files from outside with bounded memory, a registry, rewards and verdicts, and showing the arguments of tools",
		why:      "encoding/json takes twice as long, a job may have 100,000 results, and it cannot bound the memory of values. By the authors of encoding/json/v2.",
		packages: []string{"internal/lib/bounded", "internal/core/result", "internal/run/trial/reward", "internal/run/registry", "internal/core/judge", "internal/model/trajectory"},
	},
	{
		paths:    []string{"github.com/moby/sys/atomicwriter"},
		use:      "writing result files, and recorded exchanges with models",
		why:      "It writes a temporary file, syncs and renames.",
		packages: []string{"internal/core/result", "internal/run/job", "internal/model/replay"},
	},
	{
		paths:    []string{"golang.org/x/sync"},
		use:      "errgroup",
		why:      "The Go project maintains it.",
		packages: []string{"providers/docker", "internal/app/library", "internal/app/stages", "internal/run/job", "internal/run/job/merge", "internal/run/job/reuse", "internal/test/jobtest", "internal/run/dataset", "internal/run/mine", "internal/forge/github", "bench"},
	},
	{
		paths:    []string{"golang.org/x/tools"},
		use:      "checking types for another system",
		why:      "Its packages finds and parses what go vet would compile first, in a tenth of the time.",
		packages: []string{"internal/test/typecheck"},
	},
	{
		paths: []string{"golang.org/x/sys"},
		use:   "system calls: files, processes, namespaces, disk space",
		why:   "The Go project maintains it.",
		packages: []string{
			"internal/lib/cache", "internal/lib/git", "internal/run/job", "internal/run/job/linktree", "internal/lib/nofollow", "providers/docker/internal/killer", "providers/internal/processes",
			"providers/sandbox", "providers/internal/confine", "providers/internal/initproc",
			"providers/sandbox/internal/oci", "providers/internal/rtnl", "providers/sandbox/internal/usernet",
			"providers/internal/initwire", "providers/internal/initclient", "providers/internal/podinit", "internal/test/testenv",
		},
	},
	{
		paths:    []string{"golang.org/x/term"},
		use:      "whether a stream is a terminal, and its size",
		why:      "The Go project maintains it.",
		packages: []string{"internal/cli", "internal/cli/command", "internal/cli/run", "internal/cli/setup", "internal/output/ui"},
	},
	{
		paths:    []string{"golang.org/x/text"},
		use:      "names that some file system takes for one",
		why:      "It has Unicode's folding and normal forms.",
		packages: []string{"internal/core/environment"},
	},
	{
		paths: []string{"github.com/expr-lang/expr"},
		use:   "the expressions of judges and rewards",
		why: "It checks types before a run, and limits nodes and memory. It has no dependencies; cel-go would bring a parser " +
			"generator and protobuf's types.",
		packages: []string{"internal/core/judge"},
	},
	{
		paths:    []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		use:      "verdicts of judges; in tests, checking files against Rollout's JSON Schemas",
		why:      "It passes the official test suite of every draft.",
		packages: []string{"internal/core/judge"},
	},
	{
		paths:     []string{"github.com/yuin/goldmark"},
		use:       "tests: reading Markdown as GitHub does",
		why:       "It follows CommonMark and has GitHub's extensions.",
		packages:  []string{"internal/test/untrustedtest"},
		testsOnly: true,
	},
	{
		paths:    []string{"github.com/rogpeppe/go-internal/diff"},
		use:      "differences of the files that an agent has changed",
		why:      "It is the diff of Go's own tools, whose time is bounded for any input, and the module is there for tests.",
		packages: []string{"internal/output/prompt", "internal/run/trial/judging"},
	},
	{
		paths:     []string{"github.com/rogpeppe/go-internal"},
		use:       "tests: commands as scripts",
		why:       "Its `testscript` is Go's own tests of the go command, made a library.",
		testsOnly: true,
	},
	{
		paths:     []string{"github.com/moby/profiles/seccomp"},
		use:       "tests: the seccomp profile that current engines give containers",
		why:       "It is the engine's own. An update of the module shows what to copy.",
		testsOnly: true,
	},
	{
		paths:     []string{"github.com/creack/pty", "github.com/tonistiigi/vt100"},
		use:       "tests: a terminal, and what is on its screen",
		why:       "The live view is tested by what a person would see.",
		testsOnly: true,
	},
	{
		paths:     []string{"github.com/chromedp/chromedp", "github.com/chromedp/cdproto"},
		use:       "tests: pages in a headless Chromium",
		why:       "It drives a browser from Go over its own protocol. Playwright needs Node and brings browsers along.",
		packages:  []string{"internal/test/browsertest"},
		testsOnly: true,
	},
}

// findDependency returns the index of the dependency that has an import path, or -1.
func findDependency(imported string) int {
	best, at := "", -1
	for i, d := range dependencies {
		for _, p := range d.paths {
			if isBelow(imported, p) && len(p) > len(best) {
				best, at = p, i
			}
		}
	}
	return at
}

// isBelow reports whether an import path is path or below it.
func isBelow(imported, path string) bool {
	return imported == path || strings.HasPrefix(imported, path+"/")
}

// isThirdParty reports whether an import path belongs neither to this module nor to the standard
// library, whose paths have no dot in their first element.
func isThirdParty(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && below(imported) == "" && imported != module
}

// allows reports whether a package may import the modules.
func (d dependency) allows(pkg string) bool {
	return slices.ContainsFunc(d.packages, func(pattern string) bool { return matches(pattern, pkg) })
}

// matches reports whether a package is the one named, or in the directory of a pattern such as
// x/....
func matches(pattern, pkg string) bool {
	if dir, all := strings.CutSuffix(pattern, "/..."); all {
		return within([]string{dir}, pkg)
	}
	return pattern == pkg
}

// moduleViolations returns a sentence for each third-party import of pkg that the table does not
// allow.
func moduleViolations(pkg string, imports, testImports []string) []string {
	const remedy = "in internal/test/arch/modules_test.go, then run go test ./internal/test/arch -update"
	var out []string
	for _, imported := range imports {
		at := -1
		if isThirdParty(imported) {
			at = findDependency(imported)
		}
		switch {
		case !isThirdParty(imported):
		case at < 0:
			out = append(out, pkg+" imports "+imported+", which is in no line of the table: say what it is for and why "+remedy)
		case !dependencies[at].allows(pkg):
			out = append(out, pkg+" imports "+imported+", but only "+strings.Join(dependencies[at].packages, ", ")+
				" may: use their package, or add this one "+remedy)
		}
	}
	for _, imported := range testImports {
		if isThirdParty(imported) && findDependency(imported) < 0 {
			out = append(out, "tests of "+pkg+" import "+imported+", which is in no line of the table: say what it is for and why "+remedy)
		}
	}
	return out
}

// TestModules compares the imports of packages from other modules, on Linux and macOS, with the
// table, and checks that every entry of the table is needed.
func TestModules(t *testing.T) {
	problems := map[string]bool{}
	imports, testImports := map[string][]string{}, []string{} // of each package on any system; of all tests
	for _, system := range []string{"linux", "darwin"} {
		for _, p := range list(t, system) {
			name, ofTests := below(p.ImportPath), slices.Concat(p.TestImports, p.XTestImports)
			for _, problem := range moduleViolations(name, p.Imports, ofTests) {
				problems[problem] = true
			}
			imports[name] = append(imports[name], p.Imports...)
			testImports = append(testImports, ofTests...)
		}
	}
	for _, problem := range slices.Sorted(maps.Keys(problems)) {
		t.Error(problem)
	}
	all := slices.Concat(slices.Collect(maps.Values(imports))...)
	for i, d := range dependencies {
		for _, path := range d.paths {
			if !slices.ContainsFunc(slices.Concat(all, testImports), func(imported string) bool { return isBelow(imported, path) }) {
				t.Errorf("nothing imports %s: remove it from internal/test/arch/modules_test.go", path)
			}
		}
		for _, name := range d.packages {
			used := false
			for pkg, list := range imports {
				used = used || matches(name, pkg) && slices.ContainsFunc(list, func(imported string) bool { return findDependency(imported) == i })
			}
			if !used {
				t.Errorf("%s does not import %s: remove it from that line of internal/test/arch/modules_test.go", name, d.paths[0])
			}
		}
		if strings.TrimSpace(d.use) == "" || strings.TrimSpace(d.why) == "" {
			t.Errorf("%s: say what it is for and why", d.paths[0])
		}
	}
}

// TestDirectModules checks that the table lists exactly the direct requirements of go.mod.
func TestDirectModules(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := directModules(string(text))
	if len(direct) < 10 {
		t.Fatalf("go.mod has only %d direct requirements: the check reads it wrongly", len(direct))
	}
	var paths []string
	for _, d := range dependencies {
		paths = append(paths, d.paths...)
	}
	for _, mod := range direct {
		if !slices.ContainsFunc(paths, func(p string) bool { return isBelow(p, mod) }) {
			t.Errorf("go.mod requires %s, which is in no line of internal/test/arch/modules_test.go", mod)
		}
	}
	for _, p := range paths {
		if !slices.ContainsFunc(direct, func(mod string) bool { return isBelow(p, mod) }) {
			t.Errorf("%s is in internal/test/arch/modules_test.go, but is of no module that go.mod requires directly", p)
		}
	}
}

// directModules returns the modules that a go.mod requires without the comment "// indirect".
func directModules(text string) []string {
	var out []string
	block := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		one, isOne := strings.CutPrefix(line, "require ")
		switch {
		case line == "require (":
			block = true
			continue
		case line == ")":
			block = false
		case isOne:
			line = one
		case !block:
			continue
		}
		if fields := strings.Fields(line); len(fields) >= 2 && !strings.Contains(line, "// indirect") {
			out = append(out, fields[0])
		}
	}
	return out
}

// TestBinaryHasNoModulesOfTests checks the packages of this module that the binary contains.
func TestBinaryHasNoModulesOfTests(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", module+"/cmd/rollout")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	for _, p := range packages {
		name := below(p)
		for _, d := range dependencies {
			if d.testsOnly && slices.Contains(d.packages, name) {
				t.Errorf("the binary has %s, which imports %s: that is for tests only", name, d.paths[0])
			}
		}
	}
}

// TestDependenciesPage compares the table of the page with this one; -update writes it.
func TestDependenciesPage(t *testing.T) {
	path := "../../../" + dependenciesPage
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	old, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no lines %q and %q", dependenciesPage, tableBegin, tableEnd)
	}
	want := dependencyTable()
	if *update {
		if err := os.WriteFile(path, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("the table of %s is not that of internal/test/arch/modules_test.go: go test ./internal/test/arch -update writes it", dependenciesPage)
	}
}

func dependencyTable() string {
	var b strings.Builder
	b.WriteString("\n| module or package | for | why this one | imported by |\n|---|---|---|---|\n")
	for _, d := range dependencies {
		names := make([]string, len(d.packages))
		for i, p := range d.packages {
			names[i] = "`" + p + "`"
			if dir, all := strings.CutSuffix(p, "/..."); all {
				names[i] = "`" + dir + "` and those below it"
			}
		}
		slices.Sort(names)
		by := strings.Join(names, ", ")
		if len(names) == 0 {
			by = "tests"
		}
		paths := make([]string, len(d.paths))
		for i, p := range d.paths {
			paths[i] = "`" + p + "`"
		}
		b.WriteString("| " + strings.Join([]string{strings.Join(paths, ", "), d.use, d.why, by}, " | ") + " |\n")
	}
	b.WriteString("\n")
	return b.String()
}

func TestModuleViolations(t *testing.T) {
	for _, tc := range []struct {
		name, pkg, imports, tests string
		want                      string // in the one violation; "" is: none
	}{
		{"the standard library is free", "internal/core/result", "encoding/json", "", ""},
		{"packages of this module are another rule's", "internal/run/job", module + "/internal/core/result", "", ""},
		{"a listed package may import its module", "internal/cli", "github.com/spf13/cobra", "", ""},
		{"a package below a listed path counts", "providers/docker", "github.com/docker/docker/client", "", ""},
		{"another package may not", "internal/core/result", "github.com/spf13/cobra", "", "only internal/cli, "},
		{"the longest path counts", "internal/run/prove", "github.com/moby/buildkit/frontend/dockerfile/parser", "", ""},
		{"the shorter one is for others", "internal/run/prove", "github.com/moby/buildkit/client", "", "only providers/docker, "},
		{"a path that only begins alike is another", "internal/cli", "github.com/spf13/cobra2", "", "in no line of the table"},
		{"an unknown module is in no line", "internal/cli", "example.com/new", "", "say what it is for"},
		{"tests may import every module of the table", "internal/core/result", "", "github.com/spf13/cobra", ""},
		{"tests may not import others", "internal/core/result", "", "example.com/new", "tests of internal/core/result"},
		{"a module of tests is for tests", "internal/output/ui", "github.com/creack/pty", "", "may: use their package"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := moduleViolations(tc.pkg, strings.Fields(tc.imports), strings.Fields(tc.tests))
			if tc.want == "" && len(got) > 0 {
				t.Errorf("got %q, want nothing", got)
			}
			if tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("got %q, want one violation with %q", got, tc.want)
			}
		})
	}
}
