package fencing

import (
	"strings"
	"testing"
)

// mutations are mistakes in safe protocols: each must be found. The key is what the cell's
// build is given; conditions of the cells, which Judge leaves out one by one, are others.
var mutations = []struct{ cell, key, what, fault string }{
	{"token overwrite", "claim", "nothing is claimed before the read", "has taken over and read"},
	{"token overwrite", "mark", "the guard's row is collected", "takes effect after"},
	{"cas-claim overwrite", "claim", "take-over without a claim", "has taken over and read"},
	{"cas-claim overwrite", "token", "a retry after 412 without a look at the token", "takes effect after"},
	{"etag-s3 create", "belief", "a 412 after a lost answer is believed", "takes its work for refused"},
	{"create append", "fence", "no fence in the next slot", "has taken over and read"},
	{"create append", "token", "the next slot is tried after 412 without a look at the token", "takes effect after"},
	{"create append", "last", "the newest slot is not read before the fence", "takes effect after"},
	{"create-boundary create", "boundary late", "the boundary is raised after the delete", "takes its work for done"},
	{"create-boundary create", "check first", "the boundary is read before the create", "takes its work for done"},
	{"create-boundary append", "boundary late", "the boundary is raised after the delete", "takes its work for done"},
	{"manifest create", "any", "the sweep deletes any unlisted object", "refers to an object that was deleted"},
	{"manifest create", "claim", "take-over without a claim", "has taken over and read"},
	{"manifest create", "commit first", "the manifest is written before the object", "refers to an object that was deleted"},
	{"token-in-name append", "list first", "the new holder lists before it marks", "takes its work for done"},
	{"token-in-name append", "verify", "done without a second list", "takes its work for done"},
	{"opener append", "verify first", "the lock service is asked before the open", "takes effect after"},
	{"proxy overwrite", "drain", "a new token is admitted while older requests run", "takes effect after"},
	{"outbox overwrite", "guard", "the outbox does not check the token", "takes effect after"},
	{"deadline overwrite", "holder", "the deadline is compared with the holder's clock", "takes effect after"},
	{"revocation overwrite", "revoke", "nothing is revoked before the read", "takes effect after"},
}

func TestEveryMutationIsFound(t *testing.T) {
	if len(mutations) < 10 {
		t.Fatalf("%d mutations", len(mutations))
	}
	for _, m := range mutations {
		t.Run(m.cell+", "+m.what, func(t *testing.T) {
			c := find(t, m.cell)
			for _, k := range c.conditions {
				if k.key == m.key {
					t.Fatalf("%q is a condition of the cell", m.key)
				}
			}
			f := explore(c.build(m.key))
			if !strings.Contains(f.fault, m.fault) {
				t.Errorf("found %q in %d states, expected %q", f.fault, f.states, m.fault)
			}
			if f.broken != none && len(f.trace) == 0 {
				t.Error("without a trace")
			}
		})
	}
}

// find is the cell of a strategy and an operation.
func find(t *testing.T, name string) cell {
	t.Helper()
	strategy, operation, _ := strings.Cut(name, " ")
	for _, s := range strategies() {
		for _, c := range s.cells {
			if c.strategy == strategy && c.operation == operation {
				return c
			}
		}
	}
	t.Fatalf("there is no cell %q", name)
	return cell{}
}
