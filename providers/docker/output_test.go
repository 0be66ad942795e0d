package docker

import (
	"bytes"
	"strings"
	"testing"
)

const mark = "mark"

func TestOutputStripsTheProloguesLine(t *testing.T) {
	type piece struct {
		stream byte
		text   string
	}
	for _, test := range []struct {
		name     string
		pieces   []piece
		out, err string
	}{
		{"at once", []piece{{'e', mark + "\n"}, {'o', "out"}, {'e', "err"}}, "out", "err"},
		{"with what follows", []piece{{'e', mark + "\nerr"}}, "", "err"},
		{"in pieces, after the command's output", []piece{{'o', "out"}, {'e', "ma"}, {'e', "rk"}, {'o', "put"}, {'e', "\nerr"}}, "output", "err"},
		{"after noise of BASH_ENV", []piece{{'e', "noise\n" + mark + "\nerr"}}, "", "noise\nerr"},
		{"only once", []piece{{'e', mark + "\n" + mark + "\n"}}, "", mark + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			o := newOutput(mark, &stdout, &stderr)
			for _, p := range test.pieces {
				if p.stream == 'o' {
					_, _ = o.stdout([]byte(p.text))
				} else {
					_, _ = o.stderr([]byte(p.text))
				}
			}
			if err := o.close(); err != nil {
				t.Error(err)
			}
			if stdout.String() != test.out || stderr.String() != test.err || !o.open {
				t.Errorf("stdout %q, stderr %q, open %t; want %q, %q", &stdout, &stderr, o.open, test.out, test.err)
			}
		})
	}
}

func TestOutputBeforeTheMarkIsHeldBack(t *testing.T) {
	var stdout bytes.Buffer
	o := newOutput(mark, &stdout, nil)
	_, _ = o.stdout([]byte("OCI runtime exec failed"))
	if err := o.close(); err != nil || stdout.Len() > 0 || o.open || string(o.heldOut) != "OCI runtime exec failed" {
		t.Errorf("%v, stdout %q, held %q", err, &stdout, o.heldOut)
	}
	// But not for ever: then there is no such line.
	o = newOutput(mark, &stdout, nil)
	_, _ = o.stdout(make([]byte, maxHeld+1))
	if err := o.close(); err != nil || stdout.Len() != maxHeld+1 {
		t.Errorf("%v, %d bytes", err, stdout.Len())
	}
}

func TestOutputToOneWriter(t *testing.T) {
	var both bytes.Buffer
	o := newOutput(mark, &both, &both)
	_, _ = o.stderr([]byte(mark + "\n1"))
	_, _ = o.stdout([]byte("2"))
	_, _ = o.stderr([]byte("3"))
	if err := o.close(); err != nil || both.String() != "123" {
		t.Errorf("%v, %q", err, &both)
	}
	type slices struct{ writerFunc }
	incomparable := slices{func(p []byte) (int, error) { return len(p), nil }}
	if err := newOutput(mark, incomparable, incomparable).close(); err != nil {
		t.Error(err)
	}
}

func TestCommand(t *testing.T) {
	long := strings.Repeat("0123456789ü", 40_000)
	args, err := command(mark, long)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(args[5:], ""); got != long {
		t.Error("the chunks are not the script")
	}
	for _, arg := range args {
		if len(arg) >= 128<<10 {
			t.Errorf("an argument of %d bytes", len(arg))
		}
	}
}
