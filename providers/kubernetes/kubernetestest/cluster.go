package kubernetestest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The users of a cluster, each with a kubeconfig. Ours and Bare are ordinary users with all
// permissions: the API server bounds what they do at once, which it does not for its
// administrators.
const (
	Admin = "admin"
	Ours  = "rollout"
	Bare  = "bare"

	scheduler = "system:kube-scheduler"
	group     = "bench"
)

// Cluster is a real etcd, API server, scheduler and controller manager, with fake nodes, and a
// registry with one image. It has a separate directory, and listens on free ports of the loopback
// device, so that others do not notice it.
type Cluster struct {
	dir, programs string
	registry      *httptest.Server
	running       []*exec.Cmd
	waiting       sync.WaitGroup
	ended         chan error // of programs
	nodes         *fakeNodes
}

// Start starts a cluster with so many nodes, of 110 pods each. programs is a directory that
// ".ci/kubernetes build" has filled.
func Start(ctx context.Context, programs, dir string, nodes int) (*Cluster, error) {
	c := &Cluster{dir: dir, programs: programs, ended: make(chan error, 4)}
	if err := c.up(ctx, nodes); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// At returns the cluster that another process has started with a directory. It is not closed.
func At(dir string) *Cluster { return &Cluster{dir: dir} }

func (c *Cluster) up(ctx context.Context, nodes int) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := c.serveImage(ctx); err != nil {
		return err
	}
	client, err := c.startControlPlane(ctx)
	if err != nil {
		return err
	}
	c.nodes, err = startFakeNodes(ctx, client, nodes)
	return err
}

// Close ends all of it. The directory stays.
func (c *Cluster) Close() error {
	if c.nodes != nil {
		c.nodes.close()
	}
	var err error
	select {
	case err = <-c.ended:
	default:
	}
	for _, cmd := range c.running {
		_ = cmd.Process.Kill() // nothing of theirs is kept
	}
	c.waiting.Wait()
	if c.registry != nil {
		c.registry.Close()
	}
	return err
}

// serveImage starts a registry that has an image without files: on fake nodes, pods have those of
// the machine.
func (c *Cluster) serveImage(ctx context.Context) error {
	c.registry = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	at := c.registry.Listener.Addr().String() + "/empty:1"
	ref, err := name.ParseReference(at)
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		return err
	}
	return errors.Join(remote.Write(ref, image, remote.WithContext(ctx)), os.WriteFile(c.path("image"), []byte(at), 0o600))
}

// auditPolicy has the API server log every call for pods by the measured users.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [` + Ours + `, ` + Bare + `], resources: [{resources: [pods, pods/exec]}]}
- {level: None}
`

func (c *Cluster) startControlPlane(ctx context.Context) (*api.Clientset, error) {
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	etcd, peers, server := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1], "https://127.0.0.1:"+ports[2]
	if err := c.writeFiles(server); err != nil {
		return nil, err
	}
	err = c.start("etcd", "--data-dir", c.path("etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err != nil {
		return nil, err
	}
	err = c.start("kube-apiserver", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", ports[2], "--cert-dir", c.dir,
		"--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/16", "--token-auth-file", c.path("tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", c.path("key.pem"), "--service-account-signing-key-file", c.path("key.pem"),
		"--disable-admission-plugins", "TaintNodesByCondition", "--kubelet-preferred-address-types", "InternalIP",
		"--audit-policy-file", c.path("audit.yaml"), "--audit-log-path", c.path("audit.log"), "--audit-log-maxsize", "10000")
	if err != nil {
		return nil, err
	}
	client, err := c.await(ctx)
	if err != nil {
		return nil, err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName, Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	// What a new namespace needs for pods, and its removal.
	err = c.start("kube-controller-manager", "--kubeconfig", c.Kubeconfig(Admin), "--secure-port", "0", "--leader-elect=false",
		"--controllers", "serviceaccount-controller,namespace-controller")
	if err != nil {
		return nil, err
	}
	return client, c.start("kube-scheduler", "--kubeconfig", c.Kubeconfig(scheduler), "--secure-port", "0", "--leader-elect=false",
		"--kube-api-qps", "500", "--kube-api-burst", "1000") // as .ci/kubernetes: no pod waits for the scheduler's own limit
}

// writeFiles writes the input files of the programs.
func (c *Cluster) writeFiles(server string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	groups := map[string]string{Admin: "system:masters", scheduler: scheduler, Ours: group, Bare: group}
	var tokens strings.Builder
	for user, group := range groups {
		token := rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%s,%s\n", token, user, user, group)
		err = errors.Join(err, clientcmd.WriteToFile(clientcmdapi.Config{
			Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: server, CertificateAuthority: c.path("apiserver.crt")}},
			AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
			Contexts:  map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "c",
		}, c.Kubeconfig(user)))
	}
	for file, text := range map[string]string{
		"key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), "tokens.csv": tokens.String(),
		"audit.yaml": auditPolicy,
	} {
		err = errors.Join(err, os.WriteFile(c.path(file), []byte(text), 0o600))
	}
	return err
}

func (c *Cluster) path(file string) string { return filepath.Join(c.dir, file) }

// Kubeconfig returns the path of a user's kubeconfig.
func (c *Cluster) Kubeconfig(user string) string { return c.path(user + ".kubeconfig") }

// Config returns how a user reaches the API server.
func (c *Cluster) Config(user string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(user))
	if err == nil {
		config.QPS = -1
	}
	return config, err
}

// Client returns a client of the administrator's.
func (c *Cluster) Client() (*api.Clientset, error) {
	config, err := c.Config(Admin)
	if err != nil {
		return nil, err
	}
	return api.NewForConfig(config)
}

// Image returns the reference of an image without files, as which all pods run.
func (c *Cluster) Image() (string, error) {
	ref, err := os.ReadFile(c.path("image"))
	return string(ref), err
}

// start starts a program, which ends with this process.
func (c *Cluster) start(program string, args ...string) error {
	out, err := os.Create(c.path(program + ".log"))
	if err != nil {
		return err
	}
	defer out.Close()
	args = append([]string{"--pdeathsig", "KILL", filepath.Join(c.programs, program)}, args...)
	cmd := exec.Command("setpriv", args...) //nolint:noctx // Close ends it, after the nodes
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for this process
	if err := cmd.Start(); err != nil {
		return err
	}
	c.running = append(c.running, cmd)
	c.waiting.Go(func() {
		err := cmd.Wait()
		text, _ := os.ReadFile(out.Name())
		c.ended <- fmt.Errorf("%s has ended: %w\n%s", program, err, text[max(0, len(text)-2000):])
	})
	return nil
}

// await waits until the API server is ready. It makes its certificate first, without which there is
// no client.
func (c *Cluster) await(ctx context.Context) (*api.Clientset, error) {
	for {
		client, err := c.Client()
		if err == nil {
			err = client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		}
		if err == nil {
			return client, nil
		}
		select {
		case err := <-c.ended:
			return nil, err
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Refused is the name of calls that the API server has refused for its load: 429, Too Many
// Requests.
const Refused = "refused"

// Calls returns how often a user has made each call for pods, such as "create pods".
func (c *Cluster) Calls(user string) (map[string]int, error) {
	text, err := os.ReadFile(c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	calls, seen := map[string]int{}, map[string]bool{}
	for line := range bytes.Lines(text) {
		var e struct {
			AuditID, Verb, RequestURI string
			User                      struct{ Username string }
			ObjectRef                 struct{ Resource, Subresource string }
			ResponseStatus            struct{ Code int }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("the API server's audit log: %w", err)
		}
		if e.User.Username != user || seen[e.AuditID] { // long calls have a line for their beginning, too
			continue
		}
		seen[e.AuditID] = true
		call := e.Verb + " " + strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
		switch {
		case e.ResponseStatus.Code == 429:
			call = Refused
		case strings.Contains(e.RequestURI, "dryRun="):
			call += " (dry run)"
		}
		calls[call]++
	}
	return calls, nil
}

// freePorts returns ports of the loopback device on which nothing listens.
func freePorts(ctx context.Context, n int) (ports []string, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:gocritic // all are open at once, so that none is found twice
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}
