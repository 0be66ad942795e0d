package examples

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/org/rollout-action/internal/test/testenv"
)

// Names in the files of examples/kubernetes that users replace.
const (
	actionImage   = "ghcr.io/org/rollout-action:v1.0.0"
	imageRegistry = "ghcr.io/org/evals"
	repository    = "https://github.com/org/agent.git"
	inNamespace   = "namespace: evals"
)

// TestKubernetes applies the manifests of examples/kubernetes to a cluster and runs the job as the
// service account that they create: from this machine, as a GitHub runner does, and in the cluster.
func TestKubernetes(t *testing.T) {
	k := newKube(t)
	var want expected
	readJSON(t, "kubernetes/evals/expected.json", &want)
	checkout := k.checkout(t)
	k.setUp(t)

	r := runner{dir: t.TempDir(), job: filepath.Join(checkout, "evals/job.yaml"), binary: released(t)}
	r.env = []string{"KUBECONFIG=" + k.kubeconfigOf(t, "rollout")}
	r.provider.left = func(t *testing.T, _, _ string) []string { return k.trials(t) }
	t.Run("comes out as expected", func(t *testing.T) { checkRun(t, r, want) })
	t.Run("is not solved by doing nothing", func(t *testing.T) { checkNop(t, r, want) })
	if t.Failed() {
		return // the images, which are not built in the cluster, may be missing
	}
	t.Run("comes out as expected in the cluster", func(t *testing.T) {
		name := k.runJob(t, checkout)
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(k.result(t, name+"/result.json")), 0o644); err != nil {
			t.Fatal(err)
		}
		checkNumbers(t, dir, want)
		same(t, "pods that are left", k.trials(t), []string{})
	})
}

// kube is a namespace of the tests' cluster, and a part of its registry.
type kube struct {
	*kubernetes.Clientset
	config              *rest.Config
	namespace, registry string
	action              string // the image of the Action
}

func newKube(t *testing.T) *kube {
	t.Helper()
	kubeconfig, registry := testenv.Kubeconfig(t), testenv.Registry(t)
	testenv.NeedDocker(t)
	testenv.NeedGit(t)
	k := &kube{}
	var err error
	if k.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		t.Fatal(err)
	}
	if k.Clientset, err = kubernetes.NewForConfig(k.config); err != nil {
		t.Fatal(err)
	}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rollout-example-"}} // one that is deleted keeps its name for a while
	if own, err = k.CoreV1().Namespaces().Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.namespace = own.Name
	k.registry = registry + "/" + k.namespace
	k.action = k.registry + "/rollout-action:test"
	t.Cleanup(func() {
		if err := k.CoreV1().Namespaces().Delete(context.Background(), k.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return k
}

// replaced returns a file's text adapted to the tests' cluster.
func (k *kube) replaced(text string) string {
	host, _, _ := strings.Cut(k.registry, "/")
	return strings.NewReplacer(
		inNamespace, "namespace: "+k.namespace,
		imageRegistry, k.registry,
		actionImage, k.action,
		repository, "/repository/agent.bundle",
		`docker_image = "`, `docker_image = "`+host+"/",
	).Replace(text)
}

// checkout returns a copy of the example, adapted to the tests' cluster.
func (k *kube) checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("kubernetes")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"evals/job.yaml", "evals/tasks/leap-years/task.toml"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(k.replaced(read(t, file))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// manifest returns the objects of a file. Unknown fields are an error, as with kubectl.
func (k *kube) manifest(t *testing.T, name string) []runtime.Object {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(k.replaced(read(t, filepath.Join("kubernetes", name))))))
	defer documents.Close()
	var objects []runtime.Object
	for {
		document := make([]byte, 64<<10)
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		object, _, err := strict.Decode(document[:n], nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects = append(objects, object)
	}
}

// setUp creates the objects of setup.yaml.
func (k *kube) setUp(t *testing.T) {
	t.Helper()
	for _, object := range k.manifest(t, "setup.yaml") {
		var err error
		switch o := object.(type) {
		case *corev1.Namespace: // the tests' own exists
			var now *corev1.Namespace
			if now, err = k.CoreV1().Namespaces().Get(t.Context(), k.namespace, metav1.GetOptions{}); err == nil {
				now.Labels = o.Labels
				_, err = k.CoreV1().Namespaces().Update(t.Context(), now, metav1.UpdateOptions{})
			}
		case *corev1.ServiceAccount:
			_, err = k.CoreV1().ServiceAccounts(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = k.RbacV1().Roles(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = k.RbacV1().RoleBindings(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *corev1.PersistentVolumeClaim:
			k.needVolume(t, o)
			_, err = k.CoreV1().PersistentVolumeClaims(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		default:
			t.Fatalf("setup.yaml has a %T", o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// needVolume creates a volume for a claim if the cluster has no provisioner. Its only node is this
// machine then.
func (k *kube) needVolume(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	classes, err := k.StorageV1().StorageClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(classes.Items) > 0 {
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil { // another user writes to it
		t.Fatal(err)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: k.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes:            claim.Spec.AccessModes,
			ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
		},
	}
	if _, err := k.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.CoreV1().PersistentVolumes().Delete(context.Background(), volume.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// kubeconfigOf returns a kubeconfig file with a token of a service account, created as described in
// the README of the example.
func (k *kube) kubeconfigOf(t *testing.T, account string) string {
	t.Helper()
	token, err := k.CoreV1().ServiceAccounts(k.namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"it": {Server: k.config.Host, CertificateAuthorityData: k.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"it": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"it": {Cluster: "it", AuthInfo: "it"}},
		CurrentContext: "it",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// trials returns the pods created by Rollout.
func (k *kube) trials(t *testing.T) []string {
	t.Helper()
	list, err := k.CoreV1().Pods(k.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "rollout.run"})
	if err != nil {
		t.Fatal(err)
	}
	pods := []string{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod.Name)
		}
	}
	return pods
}

// runJob runs the job of a checkout as run.yaml does it, and returns its name.
func (k *kube) runJob(t *testing.T, checkout string) string {
	t.Helper()
	k.pushAction(t)
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "repository"}, BinaryData: map[string][]byte{"agent.bundle": bundle(t, checkout)}}
	if _, err := k.CoreV1().ConfigMaps(k.namespace).Create(t.Context(), source, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := k.manifest(t, "run.yaml")
	job, ok := objects[0].(*batchv1.Job)
	if len(objects) != 1 || !ok {
		t.Fatalf("run.yaml has %d objects, first a %T", len(objects), objects[0])
	}
	pod := &job.Spec.Template.Spec
	pod.HostNetwork = true // the registry is on the node's loopback interface
	k.allowHostNetwork(t)
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "repository", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: source.Name}},
	}})
	for i := range pod.InitContainers {
		pod.InitContainers[i].VolumeMounts = append(pod.InitContainers[i].VolumeMounts, corev1.VolumeMount{Name: "repository", MountPath: "/repository"})
	}
	job, err := k.BatchV1().Jobs(job.Namespace).Create(t.Context(), job, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the Job is done", func() (bool, any) {
		if job, err = k.BatchV1().Jobs(job.Namespace).Get(t.Context(), job.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		return job.Status.Succeeded > 0 || job.Status.Failed > 0, job.Status
	})
	pods, err := k.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job.Name})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("the Job has %d pods, %v", len(pods.Items), err)
	}
	name := pods.Items[0].Name
	t.Logf("run.yaml\n%s", k.log(t, name, "rollout"))
	if job.Status.Succeeded != 1 {
		status, _ := json.Marshal(pods.Items[0].Status)
		t.Fatalf("the Job failed: %s\nthe checkout: %s", status, k.log(t, name, "checkout"))
	}
	return job.Name
}

// allowHostNetwork permits host networking in the namespace, which the example does not use.
func (k *kube) allowHostNetwork(t *testing.T) {
	t.Helper()
	now, err := k.CoreV1().Namespaces().Get(t.Context(), k.namespace, metav1.GetOptions{})
	if err == nil {
		now.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
		_, err = k.CoreV1().Namespaces().Update(t.Context(), now, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pushAction builds the Action's image and pushes it to the registry.
func (k *kube) pushAction(t *testing.T) {
	t.Helper()
	label := "rollout-example=" + k.namespace
	t.Cleanup(func() {
		_ = exec.Command("docker", "image", "rm", k.action, k.action+"-stage").Run()
		_ = exec.Command("docker", "image", "prune", "--force", "--filter", "label="+label).Run() // stages of builds have no names
	})
	if err := testenv.ActionImage("..", t.TempDir(), k.action, label); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker", "push", k.action).CombinedOutput(); err != nil {
		t.Fatalf("docker push: %v\n%s", err, out)
	}
}

// bundle returns a Git repository with a directory's files, on its branch main.
func bundle(t *testing.T, dir string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.bundle")
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=evals"},
		{"bundle", "create", "--quiet", file, "main"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return []byte(read(t, file))
}

// result returns a file of the volume with results. A pod reads it, as the volume may be anywhere.
func (k *kube) result(t *testing.T, name string) string {
	t.Helper()
	pods := k.CoreV1().Pods(k.namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "read-results"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{{Name: "results", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "rollout-results"},
		}}},
		Containers: []corev1.Container{{
			Name: "main", Image: k.action, Command: []string{"cat", "/results/" + name},
			VolumeMounts: []corev1.VolumeMount{{Name: "results", MountPath: "/results"}},
		}},
	}}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the results are read", func() (bool, any) {
		now, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed, now.Status
	})
	return k.log(t, pod.Name, "main")
}

func (k *kube) log(t *testing.T, pod, container string) string {
	t.Helper()
	text, err := k.CoreV1().Pods(k.namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(t.Context())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// until waits for a condition in the cluster. done also returns a status, which is reported if it
// hangs.
func until(t *testing.T, what string, done func() (bool, any)) {
	t.Helper()
	var status any
	for range 1800 {
		var ok bool
		if ok, status = done(); ok {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	text, _ := json.Marshal(status)
	t.Fatalf("it hangs until %s: %s", what, text)
}
