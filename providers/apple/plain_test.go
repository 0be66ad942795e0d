package apple

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
)

func TestCheckReportsEveryProblem(t *testing.T) {
	var got []string
	for _, p := range Check(map[string]any{"platform": "linux/riscv64", "cpus": 0, "memory_mb": "2g", "memory": 1}) {
		got = append(got, p.Path)
	}
	if want := "cpus memory memory_mb platform"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
	if problems := Check(map[string]any{"platform": "linux/amd64", "cpus": 2, "memory_mb": 4096}); len(problems) != 0 {
		t.Errorf("%v", problems)
	}
}

func TestOnOtherSystemsTheProviderNamesOthers(t *testing.T) {
	_, err := New(t.Context(), nil, Options{OS: "linux"})
	if known := new(environment.Error); !errors.As(err, &known) || known.Kind != environment.KindUnavailable || !known.Unconfigured || !strings.Contains(known.Hint, "sandbox") {
		t.Errorf("%v", err)
	}
	_, err = New(t.Context(), nil, Options{OS: "darwin", Command: filepath.Join(t.TempDir(), "container")})
	if known := new(environment.Error); !errors.As(err, &known) || known.Kind != environment.KindUnavailable || !known.Unconfigured || !strings.Contains(known.Hint, "apple/container") {
		t.Errorf("without the command: %v", err)
	}
}

// What the program says of its version in each release, and what other programs of its name say.
func TestOldVersionsAreRefused(t *testing.T) {
	for said, want := range map[string]string{
		"container CLI version 1.2.2 (build: release, commit: 0190097)":                "does not run", // which is asked next
		"container CLI version 0.9.0 (build: release, commit: 1234567)":                "too old",
		"container CLI version 0.1.0 (build: release, commit: 0fd8692, sdk: MacOS 15)": "too old",
		"hello": "not Apple's",
	} {
		program := filepath.Join(t.TempDir(), "container")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n[ \"$1\" = --version ] || exit 1\necho '"+said+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := New(t.Context(), nil, Options{OS: "darwin", Command: program, Dir: t.TempDir()})
		want := strings.ReplaceAll(want, "not Apple's", "is not Apple's command")
		if environment.KindOf(err) != environment.KindUnavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", said, err)
		}
	}
}

func TestArgumentsOfAContainer(t *testing.T) {
	const gib = 1 << 30
	for _, tc := range []struct {
		name    string
		config  config
		limits  environment.Limits
		network environment.Network
		want    string
	}{
		{"what a task does not ask for is the command's decision", config{}, environment.Limits{}, environment.Network{}, ""},
		{"the configuration is for tasks that ask for nothing", config{cpus: 2, memoryMB: 512}, environment.Limits{}, environment.Network{}, "--cpus 2 --memory 512M"},
		{"more CPUs than there are is all of them", config{cpus: 200}, environment.Limits{}, environment.Network{}, "--cpus 8"},
		{"CPUs are whole", config{cpus: 1}, environment.Limits{MilliCPUs: 1500, Memory: 2 * gib}, environment.Network{}, "--cpus 2 --memory 2048M"},
		{"memory has a least amount", config{}, environment.Limits{Memory: 64<<20 + 1}, environment.Network{}, "--memory 200M"},
		{"an allowlist is no network", config{}, environment.Limits{}, environment.Network{Mode: environment.NetworkAllowlist, Hosts: []string{"example.org"}}, "--network none"},
		{"no network", config{}, environment.Limits{}, environment.Network{Mode: environment.NetworkNone}, "--network none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.config.platform = platforms[0]
			p := &Provider{config: tc.config, options: Options{CPUs: 8}}
			args := p.arguments("rollout-x", environment.CreateOptions{
				Image: "debian", Limits: tc.limits, Network: tc.network, Env: map[string]string{"KEY": "value-of-a-secret"}, Labels: environment.Labels{Job: "a=b"},
			})
			first, last := slices.Index(args, "/bin/sh")+1, slices.Index(args, "--label")
			if got := strings.Join(args[first:last], " "); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			for i, arg := range args {
				if strings.Contains(arg, "value-of-a-secret") || args[max(0, i-1)] == "--label" && strings.Count(arg, "=") != 1 {
					t.Errorf("argument %q", arg)
				}
			}
		})
	}
}

func TestLimitsThatAMacCannotGrantAreRefused(t *testing.T) {
	p := &Provider{options: Options{CPUs: 8}}
	for _, l := range []environment.Limits{{MilliCPUs: 8001}, {GPUs: 1}} {
		if err := p.checkLimits(l); environment.KindOf(err) != environment.KindResources || environment.IsTransient(err) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if err := p.checkLimits(environment.Limits{MilliCPUs: 8000}); err != nil {
		t.Error(err)
	}
}

// A Dockerfile of 16 KiB is refused by the command, after it has started a builder.
func TestLargeDockerfilesAreRefused(t *testing.T) {
	p := &Provider{}
	for size, refused := range map[int]bool{maxDockerfile - 1: false, maxDockerfile: true} {
		err := p.CheckBuild(t.Context(), environment.BuildOptions{Context: fstest.MapFS{"Dockerfile": {Data: make([]byte, size)}}})
		if (err != nil) != refused || refused && environment.KindOf(err) != environment.KindBuild {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestContextsAreWrittenAsTheyAre(t *testing.T) {
	content, err := buildcontext.Read(fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM x\n")}, ".dockerignore": {Data: []byte("out\n")}, "out/a": {}, "bin/run": {Data: []byte("#!"), Mode: 0o755},
		"link": {Data: []byte("/etc/passwd"), Mode: os.ModeSymlink | 0o777},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeContext(t.Context(), content, dir); err != nil {
		t.Fatal(err)
	}
	var seen []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		info, _ := d.Info()
		seen = append(seen, strings.TrimPrefix(strings.TrimPrefix(path, dir)+" "+info.Mode().String()[:4], "/"))
		return nil
	})
	if want := []string{" drwx", ".dockerignore -r--", "Dockerfile -r--", "bin drwx", "bin/run -rwx", "link Lrwx"}; !reflect.DeepEqual(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	if target, _ := os.Readlink(filepath.Join(dir, "link")); target != "/etc/passwd" {
		t.Errorf("the link leads to %s", target)
	}
	if err := writeContext(t.Context(), content, dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("names that are taken: %v", err)
	}
}

// What a container list prints, with a container of somebody else's.
func TestOnlyRolloutsContainersAreListed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "container")
	text := `[{"configuration":{"id":"buildkit","labels":{"com.apple.container.resource.role":"builder"}},"id":"buildkit","status":{"networks":[],"state":"running"}},
{"configuration":{"id":"rollout-a","labels":{"rollout":"1"}},"id":"rollout-a","status":{"networks":[],"startedDate":"2026-08-10T10:00:00Z","state":"stopped"}}]`
	if err := os.WriteFile(program, []byte("#!/bin/sh\ncat <<'E'\n"+text+"\nE\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	list, err := command{program}.list(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "rollout-a" || list[0].Status.State != "stopped" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestArchivesOfOthersAreBounded(t *testing.T) {
	for name, documents := range map[string]map[string][]byte{
		"an index that refers to itself": {"index.json": []byte(`{"manifests":[{"digest":"sha256:a"}]}`), "blobs/sha256/a": []byte(`{"manifests":[{"digest":"sha256:a"}]}`)},
		"an index without a manifest":    {"index.json": []byte(`{}`)},
		"none":                           {},
	} {
		if _, err := settingsOf(documents); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestOutputOfTheCommandIsBounded(t *testing.T) {
	program := filepath.Join(t.TempDir(), "container")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nhead -c \"$1\" /dev/zero\n"), 0o700); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
	for size, want := range map[int]error{1000: nil, maxOutput + 1: errTooMuch} {
		out, err := command{path: program}.run(t.Context(), 1, nil, strconv.Itoa(size))
		if !errors.Is(err, want) || err == nil && len(out) != size {
			t.Errorf("%d bytes: %d were read, %v", size, len(out), err)
		}
	}
}
