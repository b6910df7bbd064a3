package endtoend

import (
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// The active server freezes and another takes over: commands that name the frozen
// one first go on with the other, those that came before it had taken over, too.
func TestEtcdActiveServerFreezes(t *testing.T) {
	a, b := two(t, etcdtest.Start(t, etcdtest.Options{Members: 1}))
	testwait.Until(t, bound, "the standby says for whom it stands by", func() bool {
		return strings.Contains(b.said(), "standing by") && strings.Contains(b.said(), a.link)
	})
	a.pause()
	defer a.resume()
	for _, args := range [][]string{
		{"acquire", "s1"},
		{"acquire", "s2", "--request-id", "r1"},
		{"run", "s3", "-n", "--", "true"},
		{"run", "s4", "--", "true"},
		{"ls"},
		{"status"},
	} {
		cmd := b.command(bound, args...)
		cmd.Env = append(cmd.Env, "PAWL_SERVERS="+a.link+","+b.link)
		r := finish(t, cmd)
		if r.code != 0 {
			t.Errorf("%v: %v", args, r)
		}
		if args[0] == "status" {
			contains(t, r.stdout, b.link+" (answers)")
		}
	}
}
