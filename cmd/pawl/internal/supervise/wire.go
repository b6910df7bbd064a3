//go:build unix

package supervise

import (
	"encoding/gob"
	"io"
	"syscall"
)

// order is what a run tells its watcher. The end of the orders means: kill.
type order struct {
	Kind   orderKind
	Setup  *setup         // orderStart
	Window window         // orderStart, orderRenewed, orderEnd
	Signal syscall.Signal // orderSignal
	Lost   bool           // orderEnd: the lease is not ours any more
}

type orderKind uint8

const (
	orderStart   orderKind = iota + 1
	orderRenewed           // the window has moved
	orderSignal            // pass Signal on to the group
	orderResume            // the group may go on, if the window still allows it
	orderEnd               // ask the command to end now; no renewal counts from here on
)

// setup is a command, ready to be started. Arguments and environment are bytes,
// not text: gob leaves them as they are.
type setup struct {
	Path       string
	Args, Env  []string
	Signal     syscall.Signal
	Contain    Contain
	Cgroup     string // folder of the control group; empty: none could be made
	Foreground bool   // make its group the terminal's foreground group
}

// report is what a watcher tells its run. The end of the reports before
// reportEnded or reportFailed means: the watcher is gone.
type report struct {
	Kind   reportKind
	Pid    int            // reportStarted: the command, and its group; reportRefused: a process
	Errno  syscall.Errno  // reportFailed
	Cgroup bool           // reportStarted: it is in the control group; reportFailed: that was the fault
	Signal syscall.Signal // reportStopped, reportRefused
	Status uint32         // reportEnded: the command's wait status
	Left   bool           // reportEnded: the command had left processes behind
	Killed bool           // reportEnded: the command had not ended, and was killed
	Lost   bool           // reportFailed, reportEnded: the window had closed, or orderEnd had come, before
}

type reportKind uint8

const (
	reportStarted reportKind = iota + 1
	reportFailed             // not started
	reportStopped            // the command was stopped
	reportAsked              // the window closed and the command was asked to end
	reportRefused            // this user may not send the process the signal
	reportEnded              // the command and all that came of it are gone
)

// outbox writes values to a peer that may be stopped, without ever blocking the
// caller. Its bound is reached only by a peer that has not read for minutes;
// what is dropped then leaves the peer with an earlier deadline.
type outbox[T any] struct {
	queue   chan T
	written chan struct{} // closed when the stream is
}

const outboxMax = 1024

func newOutbox[T any](w io.WriteCloser) outbox[T] {
	b := outbox[T]{queue: make(chan T, outboxMax), written: make(chan struct{})}
	go b.run(w)
	return b
}

func (b outbox[T]) run(w io.WriteCloser) {
	defer close(b.written)
	defer w.Close()
	enc := gob.NewEncoder(w)
	var err error
	for v := range b.queue {
		if err == nil {
			err = enc.Encode(v)
		}
	}
}

func (b outbox[T]) send(v T) {
	select {
	case b.queue <- v:
	default:
	}
}

// close ends the stream behind what was sent.
func (b outbox[T]) close() { close(b.queue) }

// flush is close, and waits until the peer has it all or is gone.
func (b outbox[T]) flush() {
	b.close()
	<-b.written
}

// inbox delivers the values of a peer; the channel is closed at their end.
func inbox[T any](r io.Reader) <-chan T {
	c := make(chan T)
	go func() {
		defer close(c)
		for dec := gob.NewDecoder(r); ; {
			var v T
			if dec.Decode(&v) != nil {
				return
			}
			c <- v
		}
	}()
	return c
}
