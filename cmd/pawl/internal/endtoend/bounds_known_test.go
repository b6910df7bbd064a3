package endtoend

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inside are bounds that a user does not meet: the size of portions of work, the time
// of one step of a larger operation, and repetitions of a bound under another name. All
// others belong on docs/bounds.md.
var inside = map[string]string{
	"access.SmallMax":         "rest.SmallBodyMax",
	"audit.burstMax":          "bytes written at once",
	"audit.textMax":           "bounds.ReasonMax",
	"audit.namesMax":          "bounds.NamesMax",
	"bearer.secretMax":        "access.CredentialMax, at the caller's",
	"step.ageMax":             "what one read of a standby counts for",
	"step.bytesMax":           "store.BatchMax, without the envelope",
	"demo.dropMax":            "the end of a demonstration",
	"etcdstore.distrustMax":   "one question to one member",
	"etcdstore.askMax":        "one question to one peer",
	"etcdstore.peerAnswerMax": "an answer of a peer, which lists the members",
	"etcdstore.peerHeaderMax": "server.headerMax, for peers",
	"peerconn.ReadMax":        "etcd's own bound, the silence of a peer",
	"peerconn.writeMax":       "etcd's own bound, a write to a peer",
	"etcdstore.earlierKept":   "processes of one member that a peer tells apart",
	"etcdstore.startTries":    "a list of members that changes meanwhile",
	"server.breakersMax":      "leases that a recovery ends at once",
	"etcdstore.reconnectMax":  "a pause between two tries",
	"guard.Max":               "what a token can be at all",
	"objguard.nonceMax":       "random bits that are read back",
	"objguard.partMax":        "a part of a key, which is cut and hashed beyond",
	"objguard.pauseMax":       "a pause between two tries",
	"probe.conflictTries":     "one writer of a race",
	"probe.cleanMax":          "what a probe leaves behind",
	"probe.firstMax":          "the first write of a probe",
	"guarddb.credentialsMax":  "the search for credentials, within the time of a command",
	"probe.readMax":           "what a probe wrote",
	"gcsbucket.answerMax":     "a page of a listing",
	"gcsbucket.textMax":       "what is shown of an error",
	"probe.Kept":              "a verdict",
	"demo.addTries":           "a demonstration",
	"guarddb.connectionsKept": "connections for the next request",
	"kvlog.pageMax":           "batches read at once",
	"kvlog.paceMax":           "a pause between two looks",
	"kvlog.shareMax":          "cell.ShareMax, for a standby",
	"wire.answersMax":         "answers of one message",
	"link.burstMax":           "room that is kept from one message to the next",
	"wire.bytesMax":           "bytes of one message of answers",
	"service.sameMax":         "numbers that a client uses twice, for the audit log",
	"wire.slabMax":            "room that is made at once",
	"link.spareMax":           "what one stream may have when its identity has too much",
	"locktable.blockMax":      "names of a block of the index",
	"locktable.doneMax":       "numbers of one event of a snapshot",
	"client.answerMax":        "a page of names with the largest values",
	"main.reportMax":          "cell.RollMax, with time to answer",
	"client.ConnectMax":       "pawl.dialMax, for a command",
	"main.demoTTLMax":         "a demonstration",
	"demo.bodyMax":            "a demonstration",
	"demo.serviceMax":         "a demonstration",
	"guardproxy.metricsMax":   "one request for metrics",
	"guardproxy.lockTries":    "how often a signal may interrupt the locking",
	"httpguard.forgetTries":   "a portion of work",
	"httpguard.problemMax":    "an answer of the guard",
	"main.letGoMax":           "the release of what could not be printed",
	"systemd.notifyMax":       "one word to a service manager",
	"guarddb.idleMax":         "a connection that is opened again when it is needed",
	"runner.partMax":          "the end of a command after a signal",
	"client.PartingMax":       "the release at the end of a command",
	"flags.secretMax":         "a file that holds one secret",
	"client.silentMax":        "one server among several",
	"client.probeMax":         "one question of pawl doctor",
	"etcdstore.behindMax":     "entries that the next leader may be behind",
	"etcdstore.handOverMax":   "a clean stop's wait for another leader",
	"etcdstore.moveMax":       "one try to move the lead",
	"etcdstore.movePauseMax":  "a pause between two tries to move the lead",
	"etcdstore.enterPauseMax": "a pause before a joiner that could not start joins again",
	"pawl.messageMax":         "a message of a server, with room for what newer ones say",
	"session.silentMax":       "one server among several",
	"session.splitBytesMax":   "bytes of one message of requests",
	"session.splitMax":        "bounds.RequestsMax",
	"session.spreadMax":       "bounds.NumbersMax",
	"pgguard.rollbackMax":     "one rollback",
	"server.askMax":           "one question who listens at an address",
	"server.statusMax":        "one question while metrics are collected",
	"sqlguard.pauseMax":       "a pause between two tries",
	"supervise.outboxMax":     "lines between two processes of one run",
	"supervise.removeTries":   "tries to remove a control group",
	"supervise.sweepPauseMax": "a pause between two looks",
	"trust.sentMax":           "renewals without an answer",
}

// tableBounds is the file of the lock table's bounds.
const tableBounds = "internal/bounds/bounds.go"

// likeBounds are how bounds are called.
var likeBounds = regexp.MustCompile(`(Max|Tries|Kept|Shown)$`)

// apart are folders whose bounds are those of tests and of measuring.
var apart = regexp.MustCompile(`^(bench|tools|test|internal/(sim|tidy|test\w+)|cmd/pawl/internal/endtoend)(/|$)|test(/|$)|/faulty$`)

// Every bound of the code, exported or not, has its row on docs/bounds.md or is
// none that anybody meets.
func TestEveryBoundIsDocumentedOrExempt(t *testing.T) {
	there := boundsIn(t, root, tracked(t))
	for _, name := range slices.Sorted(maps.Keys(there)) {
		_, exported := known[name]
		_, hidden := unexported[name]
		_, detail := inside[name]
		switch onPage := exported || hidden; {
		case onPage && detail:
			t.Errorf("%s is both on docs/bounds.md and said to be nobody's business", name)
		case !onPage && !detail:
			t.Errorf("%s: %s is a bound without a row on docs/bounds.md", there[name], name)
		}
	}
	for name := range inside {
		if there[name] == "" {
			t.Errorf("there is no %s any more", name)
		}
	}
}

// The check is not blind: a bound in a block, one of several in a line, one that
// is not exported, and none of what is not a bound.
func TestBoundsAreFoundInSource(t *testing.T) {
	dir := t.TempDir() + "/"
	for name, text := range map[string]string{
		"a.go":      "package a\nconst OneMax = 1\nconst (\n\ttwoMax, threeTries = 2, 3\n\tother = 4\n)\nvar noMax = 5\nfunc f() { const innerMax = 6 }\n",
		"a_test.go": "package a\nconst testMax = 1\n",
	} {
		if err := os.WriteFile(dir+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := slices.Sorted(maps.Keys(boundsIn(t, dir, []string{"a.go", "a_test.go"})))
	if want := []string{"a.OneMax", "a.threeTries", "a.twoMax"}; !slices.Equal(got, want) {
		t.Errorf("found %q, expected %q", got, want)
	}
}

// tracked are the files below root that git knows or could be told of.
func tracked(t *testing.T) []string {
	t.Helper()
	c := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	c.Dir = root
	names, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(names), "\x00"), "\x00")
}

// boundsIn finds, in files below root, constants that are called like bounds, those of
// the file of the lock table's bounds and its limits, with where they are.
func boundsIn(t *testing.T, root string, files []string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, rel := range files {
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || strings.HasSuffix(rel, ".pb.go") ||
			apart.MatchString(path.Dir(rel)) || strings.Contains(rel, "testdata/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), root+rel, nil, parser.SkipObjectResolution)
		if os.IsNotExist(err) {
			continue // deleted, and git not yet told
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				for _, name := range boundNames(rel == tableBounds, g.Tok, spec) {
					found[f.Name.Name+"."+name] = rel
				}
			}
		}
	}
	return found
}

func boundNames(all bool, kind token.Token, spec ast.Spec) (names []string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if kind == token.CONST && (likeBounds.MatchString(id.Name) || all && id.IsExported()) {
				names = append(names, id.Name)
			}
		}
	case *ast.TypeSpec:
		limits, ok := s.Type.(*ast.StructType)
		if !all || !ok || s.Name.Name != "Limits" {
			return nil
		}
		for _, f := range limits.Fields.List {
			for _, id := range f.Names {
				names = append(names, "DefaultLimits."+id.Name)
			}
		}
	}
	return names
}
