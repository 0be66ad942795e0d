package kubernetes

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
)

// The words are those of Kubernetes 1.34.
var (
	errNoPermission = apierrors.NewForbidden(podResource, "", errors.New(`User "system:serviceaccount:evals:rollout" cannot create resource "pods" in API group "" in the namespace "evals"`))
	errNoAccount    = apierrors.NewForbidden(podResource, "p", errors.New(`error looking up service account evals/default: serviceaccount "default" not found`))
	errNotAdmitted  = apierrors.NewForbidden(podResource, "p", errors.New(`violates PodSecurity "restricted:latest": runAsNonRoot != true`))
)

func errEnding() *apierrors.StatusError {
	err := apierrors.NewForbidden(podResource, "p", errors.New("unable to create new content in namespace evals because it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Message: "namespace evals is being terminated", Field: "metadata.namespace"}}
	return err
}

func TestRefusedPodsAreExplained(t *testing.T) {
	for name, c := range map[string]struct {
		err  *apierrors.StatusError
		hint string
	}{
		"a permission that was taken away": {errNoPermission, "the permission is gone"},
		"a namespace that ends":            {errEnding(), "the namespace is being deleted"},
		"a policy of the namespace":        {errNotAdmitted, "the cluster does not admit such pods"},
		"a service account that is not":    {errNoAccount, "the cluster does not admit such pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.refuse = func(r *http.Request) error {
				if isCreate(r) {
					return c.err
				}
				return nil
			}
			p := f.provider(t, nil)
			p.youngTime = time.Millisecond
			_, err := p.CreateEnvironment(t.Context(), fakeOptions())
			own := new(environment.Error)
			if !errors.As(err, &own) || !strings.Contains(own.Hint, c.hint) {
				t.Errorf("%v, want the hint %q", err, c.hint)
			}
		})
	}
}

func TestPodWaitsForTheServiceAccountOfANewNamespace(t *testing.T) {
	f := newFakeAPI(t)
	var refused atomic.Int64
	f.refuse = func(r *http.Request) error {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") && refused.Add(1) <= 2 { // the check is the first
			return errNoAccount
		}
		return nil
	}
	env, err := f.provider(t, nil).CreateEnvironment(t.Context(), fakeOptions())
	if err != nil {
		t.Fatal(err)
	}
	_ = env.Destroy(t.Context())
}

func TestMissingHelperImageIsReportedBeforeAnyTrial(t *testing.T) {
	f := newFakeAPI(t)
	_, err := f.connect(t, nil, Options{})
	if environment.KindOf(err) != environment.KindUnavailable || !strings.Contains(err.Error(), "there is no image with Rollout's own program") {
		t.Errorf("error %v", err)
	}
	if _, err := f.connect(t, map[string]any{"helper_image": "h"}, Options{}); err != nil {
		t.Error(err)
	}
	if _, err := f.connect(t, nil, Options{Clean: true}); err != nil {
		t.Errorf("to clean: %v", err)
	}
}
