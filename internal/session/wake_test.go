package pawl

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// What becomes due within a moment is done then. Close was late otherwise, when
// something else (a retry that was due) woke the loop shortly before its time was
// up; and so was the end of a lease.
func TestWakeUpIsNotPutOff(t *testing.T) {
	const soon = 300 * time.Microsecond
	c := newCore([]string{"a"}, Options{TTL: 3 * time.Second}, clock.Reading{}, func() float64 { return 0 })
	c.tick()
	c.session.id = []byte("cut off")
	c.close(time.Second)
	c.at(clock.Reading{}.Add(time.Second - soon))
	c.session.window.Ack(c.session.window.Send(c.now), time.Hour)
	if got := c.wake(); got != soon {
		t.Errorf("the loop sleeps for %v; its time is up in %v", got, soon)
	}
	c.at(clock.Reading{}.Add(time.Second))
	if got := c.wake(); got != time.Millisecond {
		t.Errorf("what is due and not done has the loop sleep for %v", got)
	}
	c.tick()
	if !c.finished {
		t.Error("the time is up, and the client has not ended")
	}
}
