//go:build unix

package supervise

import (
	"encoding/gob"
	"os"
	"reflect"
	"testing"
	"time"
)

func TestOutboxNeverBlocksAndDropsTheNewest(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := newOutbox[report](w)
	const sent = 100 * outboxMax
	for pid := 1; pid <= sent; pid++ {
		b.send(report{Kind: reportStarted, Pid: pid}) // nobody reads
	}
	done := make(chan struct{})
	go func() { b.flush(); close(done) }()
	got, last := 0, 0
	for v := range inbox[report](r) {
		if v.Pid <= last {
			t.Fatalf("%d behind %d", v.Pid, last)
		}
		got, last = got+1, v.Pid
	}
	<-done
	if got < outboxMax || got >= sent {
		t.Errorf("%d of %d were delivered", got, sent)
	}
}

func TestOutboxAfterPeerExit(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := newOutbox[order](w)
	r.Close()
	for range 2 * outboxMax {
		b.send(order{Kind: orderRenewed})
	}
	b.flush()
}

// Arguments are bytes.
func TestOrdersKeepBytes(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sent := order{
		Kind: orderStart, Window: window{Term: time.Second, Kill: -1},
		Setup: &setup{Path: "/bin/\xff", Args: []string{"a\x00b", ""}, Env: []string{"A=\xfe\n"}},
	}
	b := newOutbox[order](w)
	b.send(sent)
	b.close()
	var got order
	if err := gob.NewDecoder(r).Decode(&got); err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWatcherRefusesManualStart(t *testing.T) {
	for _, args := range [][]string{nil, {"3"}, {"x", "y"}, {"0", "1"}, {"3", "4", "5"}, {"998", "999"}} {
		if in, out, err := watcherPipes(args); err == nil {
			t.Errorf("arguments %q: %v, %v", args, in.Fd(), out.Fd())
		}
	}
}
