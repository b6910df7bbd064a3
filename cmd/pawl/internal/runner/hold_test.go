package runner

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/pawltest"
)

// A leader that was frozen past the end of its term has lost it, also where a signal
// is what it hears of first. Which of the two that is, chance decides.
func TestElectFrozenPastItsTerm(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out := os.Stdout
	os.Stdout = null
	defer func() { os.Stdout = out }()
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		l, err := s.Dial(t, pawl.Options{TTL: 2 * time.Second}).Acquire(t.Context(), "svc")
		if err != nil {
			t.Fatal(err)
		}
		s.Cut()
		<-l.Context().Done()
		for range 50 {
			signals := make(chan os.Signal, 1)
			signals <- syscall.SIGTERM
			r := &running{Options: &Options{Name: "svc", Election: true}, signals: signals}
			r.heard = &renewals{running: r}
			if o, err := r.hold(t.Context(), l); o.Code != exit.CodeLost || err == nil {
				t.Fatalf("it ended with %+v, %v", o, err)
			}
		}
	})
}
