package sandbox

import (
	"slices"
	"testing"
)

func TestHidden(t *testing.T) {
	for _, tc := range []struct {
		name       string
		hide, want []string
	}{
		{"what is not shown anyway need not be hidden", []string{"/home/u/tasks", "/work", "/tmp/x", "/"}, nil},
		{"what lies below shown folders is hidden", []string{"/usr/src/app", "/opt/tasks"}, []string{"/opt/tasks", "/usr/src/app"}},
		{"what lies in hidden folders is hidden with them", []string{"/opt/a/b", "/opt/a", "/opt/ab"}, []string{"/opt/a", "/opt/ab"}},
		{"what programs need is shown all the same", []string{"/usr", "/usr/bin", "/usr/local", "/opt", "/usr/lib/x"}, []string{"/usr/lib/x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := hidden(tc.hide); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhiteouts(t *testing.T) {
	got := whiteouts([]string{"/opt/tasks", "/usr/src/app", "/usrx/y"}, hostPart{At: "/usr", Host: "/usr"})
	if !slices.Equal(got, []string{"src/app"}) {
		t.Errorf("got %q", got)
	}
}
