package flytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// initProgram is process 1 of a machine, as far as commands go: it runs what arrives on its input.
// Commands need nothing of the machine but the program that they name, as on the real service. A
// request is a line with its number, seconds, the number of arguments and the length of the input,
// each argument with a line with its length before it, and the input. A response is a line with the
// number, the exit code (-1: the time was over) and two lengths, and both outputs.
const initProgram = `
use strict; use POSIX ();
binmode STDIN; binmode STDOUT; $SIG{CHLD} = 'IGNORE'; $SIG{PIPE} = 'IGNORE';
pipe(my $free, my $lock); syswrite $lock, 'x';
sub take { my ($n, $s) = (shift, ''); while (length $s < $n) { read(STDIN, $s, $n - length $s, length $s) or exit } $s }
sub line { my $l = <STDIN>; defined $l or exit; chomp $l; $l }
sub put { my $s = shift; while (length $s) { my $n = syswrite STDOUT, $s; defined $n or exit; substr($s, 0, $n) = '' } }
while (1) {
	my ($id, $seconds, $count, $size) = split / /, line();
	my @args = map { take(line()) } 1 .. $count;
	my $input = take($size);
	next if fork;
	$SIG{CHLD} = 'DEFAULT';
	pipe(my $in, my $to); pipe(my $from, my $out); pipe(my $errors, my $err);
	my $pid = fork;
	if (!$pid) {
		setpgrp; $SIG{PIPE} = 'DEFAULT';
		POSIX::dup2(fileno $in, 0); POSIX::dup2(fileno $out, 1); POSIX::dup2(fileno $err, 2);
		close $_ for $in, $to, $from, $out, $errors, $err, $free, $lock;
		chdir '/';
		exec { $args[0] } @args or POSIX::_exit(127);
	}
	close $in; close $out; close $err;
	if (!fork) { close $from; close $errors; print $to $input; close $to; POSIX::_exit(0) }
	close $to;
	my $late = 0;
	$SIG{ALRM} = sub { $late = 1; kill 9, -$pid; kill 9, $pid };
	alarm $seconds;
	my ($o, $e) = ('', '');
	while (1) { my $n = sysread $from, $o, 65536, length $o; next if !defined $n && $!{EINTR}; last unless $n }
	while (1) { my $n = sysread $errors, $e, 65536, length $e; next if !defined $n && $!{EINTR}; last unless $n }
	while (waitpid($pid, 0) != $pid) { last unless $!{EINTR} }
	my $code = $late ? -1 : $? & 127 ? 128 + ($? & 127) : $? >> 8;
	sysread $free, my $token, 1;
	put("$id $code " . length($o) . ' ' . length($e) . "\n$o$e");
	syswrite $lock, 'x';
	POSIX::_exit(0);
}
`

// result is what a command left.
type result struct {
	code        int
	out, errors []byte
}

// inits starts the commands of a machine.
type inits struct {
	mu      sync.Mutex
	to      *io.PipeWriter
	next    int
	waiting map[int]chan result
	ended   chan struct{}
}

var errNoInit = errors.New("the machine's first process has ended")

// startInit starts the program in an environment.
func startInit(ctx context.Context, env environment.Environment) *inits {
	in, to := io.Pipe()
	from, out := io.Pipe()
	i := &inits{to: to, waiting: map[int]chan result{}, ended: make(chan struct{})}
	go func() {
		_, err := env.Exec(ctx, "exec perl -e "+quote(initProgram), environment.ExecOptions{WorkDir: "/", User: "root", Stdin: in, Stdout: out})
		if err == nil {
			err = errNoInit
		}
		_ = out.CloseWithError(err)
		_ = in.CloseWithError(err)
	}()
	go i.receive(bufio.NewReader(from))
	return i
}

func (i *inits) receive(from *bufio.Reader) {
	defer close(i.ended)
	for {
		var id, outs, errs int
		var r result
		if _, err := fmt.Fscanf(from, "%d %d %d %d\n", &id, &r.code, &outs, &errs); err != nil {
			return
		}
		r.out, r.errors = make([]byte, outs), make([]byte, errs)
		if _, err := io.ReadFull(from, r.out); err != nil {
			return
		}
		if _, err := io.ReadFull(from, r.errors); err != nil {
			return
		}
		i.mu.Lock()
		waiting := i.waiting[id]
		delete(i.waiting, id)
		i.mu.Unlock()
		if waiting != nil {
			waiting <- r
		}
	}
}

// run runs a command. late reports that its time was over.
func (i *inits) run(args []string, stdin string, limit time.Duration) (r result, late bool, err error) {
	answer := make(chan result, 1)
	i.mu.Lock()
	i.next++
	id := i.next
	i.waiting[id] = answer
	_, err = fmt.Fprintf(i.to, "%d %d %d %d\n", id, max(1, int(limit.Seconds())), len(args), len(stdin))
	for _, arg := range args {
		if err == nil {
			_, err = fmt.Fprintf(i.to, "%d\n%s", len(arg), arg)
		}
	}
	if err == nil {
		_, err = io.WriteString(i.to, stdin)
	}
	i.mu.Unlock()
	if err != nil {
		return result{}, false, err
	}
	select {
	case r = <-answer:
		return r, r.code == -1, nil
	case <-i.ended:
		return result{}, false, errNoInit
	}
}
