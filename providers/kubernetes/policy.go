package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/org/rollout-action/internal/core/environment"
)

// CheckCreation implements environment.CreationChecker.
func (p *Provider) CheckCreation(ctx context.Context, l environment.Limits, n environment.Network) error {
	if err := errors.Join(checkNetwork(n), p.fits(l)); err != nil || n.Public() {
		return err
	}
	return p.policies.check(ctx)
}

// policies finds and creates the NetworkPolicies of a namespace.
type policies struct {
	client     *client
	restricted labels.Set // the labels of a restricted pod
	protected  once[bool] // the policy for public networks is there, or cannot be
}

// deny returns the NetworkPolicy that denies restricted pods all traffic. It stays: other runs in
// the namespace may need it at the same time, it selects only pods of Rollout's, and who may not
// create it can have it created once.
func (p *policies) deny() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: policyName, Namespace: p.client.namespace},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelNetwork: networkRestricted}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// Networks that are not the internet: those of clusters and of companies, of nodes, and of the
// link, where clouds answer with the credentials of a node (169.254.169.254, fd00:ec2::254).
// Source: IANA's registries of special-purpose addresses.
var (
	notInternet4 = []string{"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/3"}
	notInternet6 = []string{"::/127", "fc00::/7", "fe80::/10", "ff00::/8"}
)

// nameServerPorts are where the name servers of clusters listen. Most engines judge a connection
// after the service's address was replaced by that of a pod, and these pods listen elsewhere in
// some distributions: 5353 in OpenShift, 8053 in Gardener.
var nameServerPorts = []int32{53, 5353, 8053}

// open returns the NetworkPolicy for pods with a public network: they reach the internet and
// name servers, but neither each other nor anything else in private networks; and nothing reaches
// them. The pod of the proof is an exception, by which a change of the network is noticed.
func (p *policies) open() *networkingv1.NetworkPolicy {
	udp, tcp, target := corev1.ProtocolUDP, corev1.ProtocolTCP, intstr.FromInt32(targetPort)
	var names []networkingv1.NetworkPolicyPort
	for _, port := range nameServerPorts {
		at := intstr.FromInt32(port)
		names = append(names, networkingv1.NetworkPolicyPort{Protocol: &udp, Port: &at}, networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: &at})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: openName, Namespace: p.client.namespace},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelNetwork: networkOpen}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{
				{Ports: names},
				{
					To:    []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelRole: roleTarget}}}},
					Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &target}},
				},
				{To: []networkingv1.NetworkPolicyPeer{
					{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: notInternet4}},
					{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: notInternet6}},
				}},
			},
		},
	}
}

// protect creates the policy for public networks if it is missing, once in a run. A user
// who may not see or create policies does without it, as documented. An existing policy of this
// name is not changed.
func (p *policies) protect(ctx context.Context) error {
	_, err := p.protected.get(ctx, nil, func(ctx context.Context, _ func(string)) (bool, error) {
		all, err := p.client.policies(ctx)
		if err == nil && !slices.ContainsFunc(all, func(policy networkingv1.NetworkPolicy) bool { return policy.Name == openName }) {
			err = p.client.createPolicy(ctx, p.open())
		}
		if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return true, err
	})
	return wrapped(environment.KindStart, "protect other pods with NetworkPolicy "+openName+" in namespace "+p.client.namespace, err)
}

// check returns why restricted pods cannot have their policy, or nil.
func (p *policies) check(ctx context.Context) error {
	found, err := p.find(ctx)
	if err != nil || found {
		return err
	}
	may, err := p.client.allowed(ctx, authorizationv1.ResourceAttributes{
		Namespace: p.client.namespace, Verb: "create", Group: networkingv1.GroupName, Resource: "networkpolicies",
	})
	if err == nil && !may {
		err = apierrors.NewForbidden(networkingv1.Resource("networkpolicies"), policyName, errors.New("this user may not create it"))
	}
	if err != nil {
		return p.refused(err)
	}
	return nil
}

// restricting describes the operation in errors.
func (p *policies) restricting() string {
	return "restrict the network with NetworkPolicy " + policyName + " in namespace " + p.client.namespace
}

// ensure creates the policy if it is missing, and refuses a namespace where another one gives
// restricted pods a network.
func (p *policies) ensure(ctx context.Context) error {
	found, err := p.find(ctx)
	if err != nil || found {
		return err
	}
	if err := p.client.createPolicy(ctx, p.deny()); err != nil && !apierrors.IsAlreadyExists(err) {
		return p.refused(err)
	}
	return nil
}

// find reports whether the policy is there. It fails if it is not as it should be, or another
// one gives restricted pods a network.
func (p *policies) find(ctx context.Context) (found bool, err error) {
	all, err := p.client.policies(ctx)
	if err != nil {
		return false, p.refused(err)
	}
	for _, policy := range all {
		switch {
		case policy.Name == policyName:
			if found = true; !sameEffect(policy.Spec, p.deny().Spec) {
				return true, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: it exists, but differs from Rollout's", p.restricting()), Hint: "delete it"}
			}
		case len(policy.Spec.Egress)+len(policy.Spec.Ingress) > 0 && p.maySelect(policy.Spec.PodSelector):
			return found, &environment.Error{
				Kind: environment.KindStart,
				Err:  fmt.Errorf("%s: NetworkPolicy %s allows traffic of these pods, too, and policies add up", p.restricting(), policy.Name),
				Hint: "have it leave out pods with the label " + labelNetwork + "=" + networkRestricted + ", or use another namespace",
			}
		}
	}
	return found, nil
}

// sameEffect reports whether both policies allow nothing, for the same pods and directions.
func sameEffect(a, b networkingv1.NetworkPolicySpec) bool {
	types := func(s networkingv1.NetworkPolicySpec) []networkingv1.PolicyType {
		sorted := slices.Sorted(slices.Values(s.PolicyTypes))
		return slices.Compact(sorted)
	}
	return reflect.DeepEqual(a.PodSelector, b.PodSelector) && slices.Equal(types(a), types(b)) && len(a.Egress)+len(a.Ingress)+len(b.Egress)+len(b.Ingress) == 0
}

// maySelect reports whether a selector may select a restricted pod, of whatever job and trial.
func (p *policies) maySelect(s metav1.LabelSelector) bool {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return true
	}
	requirements, selectable := selector.Requirements()
	for _, r := range requirements {
		if varies := []string{labelJob, labelTrial, labelRun}; !slices.Contains(varies, r.Key()) && !r.Matches(p.restricted) {
			return false
		}
	}
	return selectable
}

// refused returns the error of a policy that this user cannot see or create.
func (p *policies) refused(err error) error {
	err = failed(environment.KindStart, p.restricting(), err)
	var e *environment.Error
	if errors.As(err, &e) && apierrors.IsForbidden(err) {
		e.Hint, e.Output = "ask for the role in docs/providers/kubernetes.md, or for the policy itself", role(p.client.namespace)
	}
	return err
}
