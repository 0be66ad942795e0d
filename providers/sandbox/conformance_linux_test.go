package sandbox

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// testImage is the image of the conformance suite. If it is not available, this machine's root is
// used.
const testImage = testenv.Image

// needOthers lists the checks that need users other than root, which a sandbox with one id lacks.
var needOthers = []string{
	"a working directory that the image lacks is made",
	"a timeout kills a command of a user who is not root",
	"an ENTRYPOINT runs as the image's user",
	"a command runs where and as whom it is told",
	"a terminal belongs to the command's user",
	"the mode of the destination is as asked for",
	"a user who is not root can read copied files",
	"files arrive with the owners, modes, times and names that they had",
}

// needImages lists the checks about missing images: this machine's root replaces those as well.
var needImages = []string{"an image that does not exist makes no environment", "an image that does not exist cannot be pulled"}

func TestConformanceOnThisMachinesRoot(t *testing.T) {
	conform(t, map[string]any{"base": baseHost}, !testenv.LongRun()) // in full once for a change, not as each of several users
}

// TestConformanceOnAnImage needs an archive of the image, or an engine with it.
func TestConformanceOnAnImage(t *testing.T) {
	testenv.Long(t, "all of the contract once more, on an image")
	conform(t, realImage(t), testenv.Times(1, 2) == 1) // in full only in the nightly run
}

// realImage returns a configuration that takes the test image from a single place.
func realImage(t testing.TB) map[string]any {
	t.Helper()
	if os.Getenv("ROLLOUT_TEST_IMAGE_ARCHIVE") == "" {
		testenv.NeedDocker(t)
	}
	return realImageConfig()
}

func realImageConfig() map[string]any {
	if archive := os.Getenv("ROLLOUT_TEST_IMAGE_ARCHIVE"); archive != "" {
		return map[string]any{"base": "image", "images": []any{archive}}
	}
	return map[string]any{"base": "image"}
}

// conform runs the conformance suite on providers with this configuration and a separate store.
func conform(t *testing.T, cfg map[string]any, less bool) {
	cfg["dir"] = storeDir(t)
	backdoor := newProvider(t, cfg)
	hosts := &environmenttest.Hosts{}
	servers := hosts.NameServers(t)
	skip := map[string]string{}
	if cfg["base"] == baseHost {
		for _, name := range needImages {
			skip[name] = "with base: host no image is looked for"
		}
	}
	if backdoor.store.mode == modeOne {
		for _, name := range needOthers {
			skip[name] = "this user has one id: root is the only user in a sandbox"
		}
	}
	environmenttest.Run(t, environmenttest.Options{
		New: func(t testing.TB) environment.Provider {
			p := newProvider(t, cfg)
			p.opts.Dial, p.opts.NameServers = hosts.Dial, servers
			return p
		},
		Image: testImage,
		Vanish: func(t testing.TB, id string) {
			if err := backdoor.store.remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		Serve:         func(t testing.TB) string { return hosts.Outside(t) },
		ServeName:     func(t testing.TB) string { return hosts.OutsideByName(t) },
		Local:         func(t testing.TB) []string { return hosts.Machine(t) },
		NetworkClient: environmenttest.BashClient,
		Parallel:      true,
		Less:          less,
		Skip:          skip,
		Lacks:         []string{"ServiceProvider"},
	})
}

// newProvider skips or fails the test if no sandbox can be made.
func newProvider(t testing.TB, cfg map[string]any) *Provider {
	t.Helper()
	p, err := New(t.Context(), cfg, Options{Progress: func(line string) { t.Log(line) }})
	if environment.KindOf(err) == environment.KindUnavailable {
		testenv.Lacks(t, "sandbox", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Provider)
}
