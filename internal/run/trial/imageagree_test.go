package trial_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
)

// TestProvidersAgreeAboutImages: an image's user and volumes have the same effect on every
// provider.
func TestProvidersAgreeAboutImages(t *testing.T) {
	inPlaces(t, realPlaces, func(t *testing.T, p place) {
		for _, test := range []struct {
			name, dockerfile string
			want             result.ErrorType
			says             []string
		}{
			{"volumes are directories", "VOLUME [\"/data\", \"/srv/deep/er\"]\n", "", nil},
			{"a volume in the logs", "VOLUME /logs\n", "", nil},
			{"a user who is not in the image", "USER ghost\n", result.EnvironmentStartFailed, []string{"ghost", "USER"}},
			{"a group that is not in the image", "USER root:ghosts\n", result.EnvironmentStartFailed, []string{"ghosts", "USER"}},
			{"a volume where tests go", "VOLUME /tests\n", result.TaskInvalid, []string{"VOLUME", "/tests", "remove this VOLUME"}},
			{"a volume below the verifier's logs", "VOLUME /logs/verifier/deep\n", result.TaskInvalid, []string{"/logs/verifier/deep"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := story{
					files: map[string]string{"environment/Dockerfile": "FROM {{image}}\n" + test.dockerfile},
					agent: agent.Agent{Execute: "case $(stat -c '%F %a %u' /data /srv/deep/er 2>/dev/null | sort -u) in 'directory 755 0') echo made;; esac"},
				}
				o := p.newScene(t, s).run(s, s.task(t, p), 1)
				if test.want == "" {
					o.check(t, want{reward: "1"})
					if strings.Contains(test.dockerfile, "/data") && o.file(t, "command/stdout.txt") != "made\n" {
						t.Errorf("the directories are not there: %q", o.file(t, "command/stdout.txt"))
					}
					return
				}
				o.check(t, want{err: test.want, says: test.says})
			})
		}
	})
}

func TestAgentThatBreaksItsEnvironmentHasFailed(t *testing.T) {
	inPlaces(t, realPlaces, func(t *testing.T, p place) {
		s := story{agent: agent.Agent{Execute: "rm -f /bin/bash /usr/bin/bash"}}
		o := p.newScene(t, s).run(s, s.task(t, p), 1)
		o.check(t, want{err: result.AgentExecutionFailed, says: []string{"the agent left an environment in which the tests cannot be started"}})
		if e := o.Trial.Error; e != nil && strings.Contains(e.Message, "the image needs") {
			t.Errorf("the image is blamed: %s", e.Message)
		}
	})
}
