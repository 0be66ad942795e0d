package kubernetes

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/kubernetes/internal/probe"
)

var (
	names = probe.Target{Kind: probe.NameServer, Protocol: "udp", Address: "10.96.0.10:53"}
	dead  = probe.Target{Kind: probe.NameServer, Protocol: "udp", Address: "10.96.0.11:53"}
	api   = probe.Target{Kind: probe.API, Protocol: "tcp", Address: "10.96.0.1:443"}
	here  = probe.Target{Kind: probe.Node, Protocol: "tcp", Address: "10.0.0.8:10250"}
	there = probe.Target{Kind: probe.Node, Protocol: "tcp", Address: "10.0.0.9:10250"}
)

// A target proves something only if it answered a pod without restrictions promptly, and a
// restricted one has tried the same.
func TestEachTargetProvesSomethingOrNot(t *testing.T) {
	is := func(all ...probe.Target) []probe.Target { return all }
	for name, tc := range map[string]struct {
		open, denied probe.Seen
		fails        string
		says         []string
	}{
		"all answer": {
			probe.Seen{Reached: is(names, api)}, probe.Seen{Silent: is(names, api)}, "",
			lines("do not reach another pod, the name server (10.96.0.10:53/udp), the API service (10.96.0.1:443)"),
		},
		"a slow name server": {
			probe.Seen{Reached: is(names, api), Slow: is(names)}, probe.Seen{Silent: is(names, api)},
			"gets answers too slowly, so that silence towards a restricted one shows nothing: the name server (10.96.0.10:53/udp)", nil,
		},
		"no name server answers": {
			probe.Seen{Reached: is(api), Silent: is(names), Mute: is(names)}, probe.Seen{Silent: is(names, api)},
			"gets no answer in time, so that silence towards a restricted one shows nothing: the name server (10.96.0.10:53/udp)", nil,
		},
		"one of two name servers answers": {
			probe.Seen{Reached: is(names), Silent: is(dead), Mute: is(dead)}, probe.Seen{Silent: is(names, dead)}, "",
			lines("the name server (10.96.0.10:53/udp); not tested, as a pod without restrictions does not reach it either: the name server (10.96.0.11:53/udp)"),
		},
		"a name server that refuses": {
			probe.Seen{Silent: is(names)}, probe.Seen{Silent: is(names)}, "",
			lines("do not reach another pod; not tested, as a pod without restrictions does not reach it either: the name server"),
		},
		"different nodes": {
			probe.Seen{Reached: is(here)}, probe.Seen{Silent: is(there)}, "",
			lines("do not reach another pod; not tested, as only one of two pods on different nodes tried it: its node (10.0.0.8:10250, 10.0.0.9:10250)"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.kubelet = f.seenBy(true, tc.open, tc.denied)
			p := f.provider(t, nil)
			var told string
			err := p.ProveNetworks(t.Context(), func(line string) { told = line })
			if tc.fails != "" {
				if environment.KindOf(err) != environment.KindStart || !environment.IsTransient(err) || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || slices.ContainsFunc(tc.says, func(s string) bool { return !strings.Contains(told, s) }) {
				t.Errorf("%v, told %q", err, told)
			}
		})
	}
}

func lines(all ...string) []string { return all }

// A message that is lost is not taken for an empty one.
func TestLostMessagesOfTheProof(t *testing.T) {
	good := told(probe.Seen{Reached: []probe.Target{api}})
	for name, tc := range map[string]struct {
		leaks      bool
		open, shut string
		transient  bool
		want       string
	}{
		"of the pod without restrictions": {false, "", told(probe.Seen{}), true, "the probe did not answer: its message is lost"},
		"of the restricted pod":           {false, good, "", true, "the probe did not answer: its message is lost"},
		"a part of a message":             {false, good, good[:10], true, "the probe did not answer: its message is lost: " + good[:10]},
		"of a restricted pod that leaks":  {true, good, "", false, "reaches something, and the probe did not answer what"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.kubelet = f.telling(true, tc.leaks, tc.open, tc.shut)
			err := f.provider(t, nil).ProveNetworks(t.Context(), nil)
			if environment.KindOf(err) != environment.KindStart || environment.IsTransient(err) != tc.transient || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v", err)
			}
		})
	}
	for name, tc := range map[string]struct {
		end  corev1.ContainerStateTerminated
		what string
		want string
	}{
		"a pod that reaches nothing":   {corev1.ContainerStateTerminated{ExitCode: probe.Unmet}, probe.Open, "a pod cannot reach another one and did not say why"},
		"a probe that was killed":      {corev1.ContainerStateTerminated{ExitCode: 137}, probe.Denied, "the probe ended with exit code 137 and did not say why"},
		"a probe that could not begin": {corev1.ContainerStateTerminated{ExitCode: probe.Failed, Message: "no"}, probe.Denied, "the probe ended with exit code 1: no"},
	} {
		if _, err := judge(&tc.end, tc.what); !environment.IsTransient(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each address of the pod that listens is tried.
func TestAllAddressesOfPods(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}}}
	if got := targetAddresses(pod); !slices.Equal(got, []string{"10.0.0.1:8411", "[fd00::1]:8411"}) {
		t.Errorf("addresses %q", got)
	}
	if got := targetAddresses(&corev1.Pod{}); len(got) > 0 {
		t.Errorf("a pod without an address has %q", got)
	}
}

func TestClustersThatTellAllAddressesOfNodes(t *testing.T) {
	for minor, want := range map[string]bool{"": false, "x": false, "29": false, "30": true, "34": true, "31+": true} {
		f := newFakeAPI(t)
		f.minor = minor
		if got := f.provider(t, nil).client.tellsHosts(t.Context()); got != want {
			t.Errorf("Kubernetes 1.%s: %t", minor, got)
		}
	}
}
