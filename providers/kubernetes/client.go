package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync/atomic"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// scheme has the types that the provider uses, and no others: a whole client for the API would be
// as large as the rest of the program.
var scheme, parameters = func() (*runtime.Scheme, runtime.ParameterCodec) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the types are constants
		}
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s, runtime.NewParameterCodec(s)
}()

// client is the part of the API that the provider uses. Requests that only ask, and those that may
// be repeated, are repeated while they fail in a way that passes.
type client struct {
	config                          *rest.Config
	core, networking, authorization rest.Interface
	namespace                       string
	silent                          atomic.Bool // the last request was not answered
}

// newClient returns a client for a configuration. Nothing is sent yet.
func newClient(config *rest.Config, namespace string) (*client, error) {
	c := &client{config: rest.CopyConfig(config), namespace: namespace}
	// The server throttles by itself, knowing its load.
	c.config.QPS = -1
	c.config.WarningHandlerWithContext, c.config.WarningHandler = rest.NoWarnings{}, nil
	c.config.UserAgent = "rollout"
	c.config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &listener{next, &c.silent} })
	transport, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return nil, err
	}
	for at, gv := range map[*rest.Interface]schema.GroupVersion{
		&c.core: corev1.SchemeGroupVersion, &c.networking: networkingv1.SchemeGroupVersion, &c.authorization: authorizationv1.SchemeGroupVersion,
	} {
		own := rest.CopyConfig(c.config)
		own.GroupVersion, own.APIPath = &gv, "/apis"
		if gv.Group == "" {
			own.APIPath = "/api"
		}
		if *at, err = rest.RESTClientForConfigAndClient(own, transport); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// listener records whether the server answers.
type listener struct {
	next   http.RoundTripper
	silent *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (l *listener) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if err == nil || isConnection(err) {
		l.silent.Store(err != nil)
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport.
func (l *listener) WrappedRoundTripper() http.RoundTripper { return l.next }

func (c *client) createPod(ctx context.Context, pod *corev1.Pod, opts metav1.CreateOptions) (*corev1.Pod, error) {
	made := &corev1.Pod{}
	err := c.core.Post().Namespace(pod.Namespace).Resource("pods").VersionedParams(&opts, parameters).Body(pod).Do(ctx).Into(made)
	return made, err
}

func (c *client) getPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := persist(ctx, func() error {
		return c.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
	})
	return pod, err
}

// deletePod deletes a pod at once, whatever its containers do.
func (c *client) deletePod(ctx context.Context, namespace, name string) error {
	return persist(ctx, func() error {
		return c.core.Delete().Namespace(namespace).Resource("pods").Name(name).
			Body(&metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}).Do(ctx).Error()
	})
}

// patchPod merges fields into the metadata of a pod. null removes one.
func (c *client) patchPod(ctx context.Context, namespace, name string, metadata map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return persist(ctx, func() error {
		return c.core.Patch(types.MergePatchType).Namespace(namespace).Resource("pods").Name(name).Body(patch).Do(ctx).Error()
	})
}

// page is how many objects one answer has. Source: client-go's pager.
const page = 500

// listPods calls each with all pods that the selector selects; an empty namespace is all of them.
func (c *client) listPods(ctx context.Context, namespace, selector string, each func(*corev1.Pod)) error {
	opts := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		list := &corev1.PodList{}
		err := persist(ctx, func() error {
			*list = corev1.PodList{}
			return c.core.Get().Namespace(namespace).Resource("pods").VersionedParams(&opts, parameters).Do(ctx).Into(list)
		})
		if err != nil {
			return err
		}
		for i := range list.Items {
			each(&list.Items[i])
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return nil
		}
	}
}

func (c *client) listForWatch(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list := &corev1.PodList{}
	err := c.core.Get().Namespace(c.namespace).Resource("pods").VersionedParams(&opts, parameters).Do(ctx).Into(list)
	return list, err
}

func (c *client) watchPods(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.core.Get().Namespace(c.namespace).Resource("pods").VersionedParams(&opts, parameters).Watch(ctx)
}

// allowed asks whether this user may do something in the namespace.
func (c *client) allowed(ctx context.Context, of authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &of}}
	answer := &authorizationv1.SelfSubjectAccessReview{}
	err := persist(ctx, func() error {
		return c.authorization.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(answer)
	})
	return answer.Status.Allowed, err
}

// findNamespace returns an error if there is no such namespace, or this user may not look.
func (c *client) findNamespace(ctx context.Context) error {
	return persist(ctx, func() error {
		return c.core.Get().Resource("namespaces").Name(c.namespace).Do(ctx).Error()
	})
}

func (c *client) quotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	list := &corev1.ResourceQuotaList{}
	err := persist(ctx, func() error {
		return c.core.Get().Namespace(c.namespace).Resource("resourcequotas").Do(ctx).Into(list)
	})
	return list.Items, err
}

func (c *client) limitRanges(ctx context.Context) ([]corev1.LimitRange, error) {
	list := &corev1.LimitRangeList{}
	err := persist(ctx, func() error {
		return c.core.Get().Namespace(c.namespace).Resource("limitranges").Do(ctx).Into(list)
	})
	return list.Items, err
}

func (c *client) policies(ctx context.Context) ([]networkingv1.NetworkPolicy, error) {
	list := &networkingv1.NetworkPolicyList{}
	err := persist(ctx, func() error {
		return c.networking.Get().Namespace(c.namespace).Resource("networkpolicies").Do(ctx).Into(list)
	})
	return list.Items, err
}

func (c *client) createPolicy(ctx context.Context, policy *networkingv1.NetworkPolicy) error {
	return persist(ctx, func() error {
		return c.networking.Post().Namespace(c.namespace).Resource("networkpolicies").Body(policy).Do(ctx).Error()
	})
}

// execURL returns the address that runs a command in a container of a pod, with its input, output
// and errors.
func (c *client) execURL(namespace, name, container string, command ...string) *url.URL {
	return c.core.Get().Namespace(namespace).Resource("pods").Name(name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command, Stdin: true, Stdout: true, Stderr: true,
		}, parameters).URL()
}
