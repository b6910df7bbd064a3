package endtoend

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// A machine that was copied with its configuration and folder, and started beside the
// original, does not vote: the original answers at the address that both have. The
// original goes on.
func TestQuorumCopiedMachineIsRefused(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	n1, n3 := q.servers[0], q.servers[2]
	n3.stop(syscall.SIGTERM)
	copied := n3.data + ".copy"
	if err := os.CopyFS(copied, os.DirFS(n3.data)); err != nil {
		t.Fatal(err)
	}
	n3.launch()
	q.ready(n3)
	twin := q.server("n3", q.peers, "--peer-listen", freeAddress(t))
	twin.data = copied
	twin.launch()
	if code := twin.end(); code != 69 {
		t.Errorf("the copy ends with %d", code)
	}
	contains(t, twin.said(), "another process runs as the server n3", "at its own address http")
	granting(t, q.dial(30*time.Second), "turn").more(10, "grants beside the copy")
	q.voters(n1, "n1", "n2", "n3")
}
