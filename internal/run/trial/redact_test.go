package trial_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

func TestTrialFilesHaveNoSecrets(t *testing.T) {
	const odd = "s3cr3t/Vàlue+with=chars&more \"quotes\" 100%"
	const plain = "sk-live-ABCdef0123456789"
	everywhere(t, func(t *testing.T, p place) {
		s := story{
			secrets: []string{odd, plain},
			env:     map[string]string{"ODD": odd, "PLAIN": plain, "ODD_URL": url.QueryEscape(odd), "ODD_64": base64.StdEncoding.EncodeToString([]byte(odd))},
			agent: script(`
echo "plain: $ODD, $PLAIN."; echo "in a line $PLAIN$PLAIN$ODD" >&2
echo "url: $ODD_URL"; echo "base64: $ODD_64"
for ((i = 0; i < ${#PLAIN}; i++)); do printf %s "${PLAIN:i:1}"; sleep 0.01; done; echo
printf %s "${PLAIN:0:12}"; sleep 0.2; echo "${PLAIN:12}"
echo "key: $ODD" >/logs/agent/log.txt; echo "$ODD_64" >>/logs/agent/log.txt
mkdir "/logs/agent/dir-$PLAIN"; echo x >"/logs/agent/dir-$PLAIN/file-$PLAIN.txt"; ln -s "/$PLAIN" "/logs/agent/link-$PLAIN"
echo "$ODD $PLAIN" >/tmp/stolen; printf %s "$PLAIN"`),
			files: tests(`cat /tmp/stolen; (printf 'not a number, but in all of its length '; cat /tmp/stolen) >/logs/verifier/reward.txt`),
		}
		o := p.run(t, s)
		o.check(t, want{err: result.VerifierRewardInvalid})
		left := o.files(t)
		text, err := result.Marshal(o.Trial)
		if err != nil {
			t.Fatal(err)
		}
		left["the result"], left["the detail"] = string(text), o.Detail
		for _, e := range o.events {
			line, err := result.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			left["the events"] += string(line)
		}
		inner := func(encoded string) string { return encoded[4 : len(encoded)-8] } // what no neighbour changes
		for name, text := range left {
			for what, secret := range map[string]string{
				"a secret": odd, "another": plain, "one for URLs": url.QueryEscape(odd), "one in base64": inner(base64.StdEncoding.EncodeToString([]byte(odd))),
				"a part of one": "live-ABC", "a part of another": "Vàlue",
			} {
				if strings.Contains(name, secret) || strings.Contains(text, secret) {
					t.Errorf("%s is in %s: %q", what, name, text)
				}
			}
		}
		for name, want := range map[string]string{
			"command/stdout.txt": "plain: ***, ***.\nurl: ***\nbase64: ***\n***\n***\n***",
			"command/stderr.txt": "in a line ***\n",
			"logs/agent/log.txt": "key: ***\n***\n",
		} {
			if left[name] != want {
				t.Errorf("%s: %q, want %q", name, left[name], want)
			}
		}
		if left["logs/agent/dir----/file----.txt"] != "x\n" {
			t.Errorf("the file with the secret's name is lost: %v", left)
		}
	})
}

func TestLiteralsAreNoSecrets(t *testing.T) {
	t.Parallel()
	o := fakePlace.run(t, story{agent: script(`echo "$MODEL"`), env: map[string]string{"MODEL": "large-model-1"}})
	o.check(t, want{reward: "1"})
	if got := o.file(t, "command/stdout.txt"); got != "large-model-1\n" {
		t.Errorf("stdout.txt: %q", got)
	}
}

// Hiding secrets in written files must not change the values read from the environment.
func TestSecretsThatLookLikeRewards(t *testing.T) {
	t.Parallel()
	o := fakePlace.run(t, story{agent: script("true"), secrets: []string{"0.125000"}, files: tests("echo 0.125000 >/logs/verifier/reward.txt\n")})
	o.check(t, want{reward: "0.125"})
}
