package environment

import (
	"os/exec"
	"reflect"
	"testing"
	"time"
)

func TestNewHealthcheck(t *testing.T) {
	usual := Healthcheck{Interval: 30 * time.Second, Timeout: 30 * time.Second, StartInterval: 5 * time.Second, Retries: 3}
	with := func(args ...string) *Healthcheck {
		h := usual
		h.Args = args
		return &h
	}
	for _, tc := range []struct {
		name        string
		test, shell []string
		want        *Healthcheck
	}{
		{"no check", nil, nil, nil},
		{"a disabled check", []string{"NONE"}, nil, nil},
		{"an inherited check, which is empty in the configuration", []string{}, nil, nil},
		{"a program", []string{"CMD", "curl", "-f"}, []string{"/bin/zsh"}, with("curl", "-f")},
		{"text for the usual shell", []string{"CMD-SHELL", "a || b"}, nil, with("/bin/sh", "-c", "a || b")},
		{"text for the image's shell", []string{"CMD-SHELL", "a || b"}, []string{"/bin/bash", "-euc"}, with("/bin/bash", "-euc", "a || b")},
		{"an unknown kind", []string{"HTTP", "x"}, nil, nil},
		{"a missing program", []string{"CMD"}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := NewHealthcheck(tc.test, tc.shell, Healthcheck{}); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
	given := Healthcheck{Interval: 1, Timeout: 2, StartPeriod: 3, StartInterval: 4, Retries: 5}
	want := given
	want.Args = []string{"x"}
	if got := NewHealthcheck([]string{"CMD", "x"}, nil, given); !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, want %+v", *got, want)
	}
}

func TestHealthcheckScript(t *testing.T) {
	h := Healthcheck{Args: []string{"printf", "%s|", "it's", "$HOME", "", "a\nb", `\`}}
	out, err := exec.Command("bash", "-c", h.Script()).Output()
	if want := "it's|$HOME||a\nb|\\|"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}
