package docker

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"
)

// draining returns a process whose output goes to out, and the engine's end of its connection.
func draining(t *testing.T, out io.Writer) (*process, net.Conn) {
	t.Helper()
	here, engine := net.Pipe()
	t.Cleanup(func() { engine.Close() })
	p := &process{conn: types.HijackedResponse{Conn: here, Reader: bufio.NewReader(here)}, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_, p.cut = stdcopy.StdCopy(out, io.Discard, readerFunc(p.read))
	}()
	return p, engine
}

// What has arrived when a command exits is read, however slow the reader is, although a background
// process holds the output open.
func TestArrivedOutputIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		p, engine := draining(t, writerFunc(func(b []byte) (int, error) {
			time.Sleep(drainTime)
			return got.Write(b)
		}))
		const frames = 10
		frame := bytes.Repeat([]byte("output\n"), 10_000)
		go func() {
			out := stdcopy.NewStdWriter(engine, stdcopy.Stdout)
			for range frames {
				_, _ = out.Write(frame)
			}
		}()
		p.drain(drainTime)
		if want := bytes.Repeat(frame, frames); !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d of %d bytes were read", got.Len(), len(want))
		}
	})
}

// A background process that goes on printing does not keep a command from its end, and one that
// pauses for less than quietTicks keeps it for a second.
func TestEndlessOutputIsCut(t *testing.T) {
	for pause, most := range map[time.Duration]time.Duration{
		time.Millisecond: drainTime + drainTicks*drainTick, 20 * time.Millisecond: drainTime + 3*pausedTicks*drainTick,
		40 * time.Millisecond: drainTime + 2*pausedTicks*drainTick,
	} {
		t.Run(pause.String(), func(t *testing.T) { cutsOutput(t, pause, most) })
	}
}

func cutsOutput(t *testing.T, pause, most time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		p, engine := draining(t, io.Discard)
		var writing sync.WaitGroup
		writing.Go(func() {
			for out := stdcopy.NewStdWriter(engine, stdcopy.Stdout); ; time.Sleep(pause) {
				if _, err := out.Write([]byte("more\n")); err != nil {
					return
				}
			}
		})
		defer writing.Wait()
		began := time.Now()
		p.drain(drainTime)
		if took := time.Since(began); took > most {
			t.Errorf("it was read for %s, not for %s", took, most)
		}
	})
}
