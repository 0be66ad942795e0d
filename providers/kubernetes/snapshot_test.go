package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/org/rollout-action/internal/core/environment"
)

// runIn runs a script in an environment on a cluster and returns its output.
func runIn(t *testing.T, env environment.Environment, script string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code, err := env.Exec(t.Context(), script, environment.ExecOptions{Stdout: &out, Stderr: &errs})
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v: %s%s", code, err, out.String(), errs.String())
	}
	return out.String()
}

// A node unpacks a layer to the files that the environment had.
func TestLayerOnANode(t *testing.T) {
	t.Parallel()
	c := needCluster(t)
	p := c.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	create := func(image string) environment.Environment {
		env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: image, Labels: environment.Labels{Job: "layer", Trial: "t", Owner: environment.Self()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Destroy(context.Background()) })
		return env
	}
	const state = `cd /opt; find . /usr/share/doc /etc -xdev \( -name hosts -o -name hostname -o -name resolv.conf \) -prune -o -type d -printf '%p %y %m %U %G\n' -o -printf '%p %y %m %U %G %s %n %l\n' | sort; cksum large; stat -c %i one two | uniq | wc -l
		python3 -c 'import os; print(os.getxattr("/opt/large", "user.a"), os.listdir(b"/opt/bytes"))'`
	env := create(c.image)
	runIn(t, env, `cd /opt; mkdir -m 1770 d; chown 7:8 d; echo 1 >one; ln one two; chmod 6755 one; ln -s /nowhere link; mkfifo pipe; mkdir bytes; touch $'bytes/\xff'
		head -c 30000000 /dev/urandom >large; python3 -c 'import os; os.setxattr("/opt/large", "user.a", b"\0b")'
		rm /etc/issue; rm -r /usr/share/doc; mkdir /usr/share/doc; echo new >/usr/share/doc/new; rm -r /etc/skel; echo file >/etc/skel
		rm /etc/motd; mkdir /etc/motd; touch /etc/motd/x; mkdir -p a/b/c/d; touch a/b/c/d/e; mv /etc/apt /etc/apt2`)
	before := runIn(t, env, state)
	key := hex.EncodeToString([]byte(rand.Text()))
	ref, err := environment.Snapshot(t.Context(), env, environment.SnapshotOptions{Key: key, Description: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	if after := runIn(t, create(ref), state); after != before {
		t.Errorf("the environment and its layer differ:\n%s", diff.Diff("environment", []byte(before), "layer", []byte(after)))
	}
	if got := runIn(t, create(c.image), "ls /etc/issue; ls /opt | wc -l"); got != "/etc/issue\n0\n" {
		t.Errorf("the image has %q", got)
	}
}
