package docker

import (
	"bytes"
	"strings"
	"testing"
)

const mark = "mark "

const statLine = "77 (b) a(s)h) S 0 77 77 0 -1 4194560 1017 318 5 2 1 0 0 0 20 0 1 0 171921 4034560 695\n"

func TestOutputStripsTheProloguesLine(t *testing.T) {
	type piece struct {
		stream byte
		text   string
	}
	for _, test := range []struct {
		name     string
		pieces   []piece
		out, err string
		start    processStart
	}{
		{"at once", []piece{{'e', mark + statLine}, {'o', "out"}, {'e', "err"}}, "out", "err", processStart{77, 171921}},
		{"with what follows", []piece{{'e', mark + statLine + "err"}}, "", "err", processStart{77, 171921}},
		{"in pieces, after the command's output", []piece{{'o', "out"}, {'e', "ma"}, {'e', "rk " + statLine[:20]}, {'o', "put"}, {'e', statLine[20:] + "err"}}, "output", "err", processStart{77, 171921}},
		{"after noise of BASH_ENV", []piece{{'e', "noise\n" + mark + statLine + "err"}}, "", "noise\nerr", processStart{77, 171921}},
		{"only once", []piece{{'e', mark + statLine + mark + statLine}}, "", mark + statLine, processStart{77, 171921}},
		{"without /proc", []piece{{'e', mark + "\nerr"}}, "", "err", processStart{}},
		{"with nonsense", []piece{{'e', mark + "x (y) z\n"}}, "", "", processStart{}},
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
			if start := <-o.began; start != test.start {
				t.Errorf("start %+v, want %+v", start, test.start)
			}
		})
	}
}

func TestOutputHoldsBackWhatIsNotTheCommands(t *testing.T) {
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
	_, _ = o.stderr([]byte(mark + statLine + "1"))
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
