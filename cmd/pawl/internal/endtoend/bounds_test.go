package endtoend

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/audit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/authfile"
	"github.com/pawlproject/pawl/cmd/pawl/internal/doctor"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/runner"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/infile"
	"github.com/pawlproject/pawl/internal/link"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/protolimit"
	"github.com/pawlproject/pawl/internal/session"
	"github.com/pawlproject/pawl/internal/store"
)

const root = "../../../../"

// bounds are the code's, by the names that docs/bounds.md gives them.
var known = map[string]any{
	"etcdstore.PrefixMax":  etcdstore.PrefixMax,
	"etcdstore.MembersMax": etcdstore.MembersMax,
	"doctor.WholeMax":      doctor.WholeMax,

	"bounds.NameMax":        bounds.NameMax,
	"bounds.NamesMax":       bounds.NamesMax,
	"bounds.LabelMax":       bounds.LabelMax,
	"bounds.ReasonMax":      bounds.ReasonMax,
	"bounds.RequestIDMax":   bounds.RequestIDMax,
	"bounds.ValueMax":       bounds.ValueMax,
	"bounds.TTLMin":         bounds.TTLMin,
	"bounds.TTLMax":         bounds.TTLMax,
	"bounds.TTLDefault":     bounds.TTLDefault,
	"bounds.WaitMax":        bounds.WaitMax,
	"bounds.LockDelayMax":   bounds.LockDelayMax,
	"bounds.RideThroughMax": bounds.RideThroughMax,
	"bounds.SlotsMax":       bounds.SlotsMax,
	"bounds.DrillMax":       bounds.DrillMax,
	"cell.RollMax":          cell.RollMax,
	"cell.RollListed":       cell.RollListed,
	"bounds.PageMax":        bounds.PageMax,
	"bounds.NumbersMax":     bounds.NumbersMax,
	"bounds.PlaceKept":      bounds.PlaceKept,
	"locktable.OutcomeKept": locktable.OutcomeKept,

	"bounds.IdentityShare": bounds.IdentityShare,

	"cell.QueuedDefault":     cell.QueuedDefault,
	"cell.QueuedKept":        cell.QueuedKept,
	"cell.QueuedBytesMax":    cell.QueuedBytesMax,
	"cell.QueuedBytesKept":   cell.QueuedBytesKept,
	"cell.AllQueuedBytesMax": cell.AllQueuedBytesMax,

	"access.StreamsDefault":  access.StreamsDefault,
	"access.StreamsMax":      access.StreamsMax,
	"access.CallsMax":        access.CallsMax,
	"access.AllCallsMax":     access.AllCallsMax,
	"access.BytesMax":        access.BytesMax,
	"access.AllBytesMax":     access.AllBytesMax,
	"access.DecodingsMax":    access.DecodingsMax,
	"access.AllDecodingsMax": access.AllDecodingsMax,
	"access.CredentialMin":   access.CredentialMin,
	"access.CredentialMax":   access.CredentialMax,

	"authfile.BytesMax":      authfile.BytesMax,
	"authfile.SeparatorsMax": authfile.SeparatorsMax,
	"authfile.IdentitiesMax": authfile.IdentitiesMax,
	"authfile.NameMax":       authfile.NameMax,
	"authfile.ProofsMax":     authfile.ProofsMax,
	"authfile.RightsMax":     authfile.RightsMax,
	"authfile.LimitMax":      authfile.LimitMax,
	"protolimit.PartsMax":    protolimit.PartsMax,
	"runner.DatabasesMax":    runner.DatabasesMax,
	"infile.BytesMax":        infile.BytesMax,
	"audit.QueueMax":         audit.QueueMax,

	"link.StreamsPerConnection": link.StreamsPerConnection,
	"linkpb.BeatGap":            linkpb.BeatGap,

	"bounds.DefaultLimits.LeasesPerSession": bounds.DefaultLimits.LeasesPerSession,
	"bounds.DefaultLimits.WaitersPerName":   bounds.DefaultLimits.WaitersPerName,
	"bounds.DefaultLimits.Sessions":         bounds.DefaultLimits.Sessions,
	"bounds.DefaultLimits.Leases":           bounds.DefaultLimits.Leases,
	"bounds.DefaultLimits.Waiters":          bounds.DefaultLimits.Waiters,
	"bounds.DefaultLimits.ValueBytes":       bounds.DefaultLimits.ValueBytes,
	"bounds.DefaultLimits.TextBytes":        bounds.DefaultLimits.TextBytes,
	"bounds.DefaultLimits.Closed":           bounds.DefaultLimits.Closed,
	"bounds.DefaultLimits.Finished":         bounds.DefaultLimits.Finished,
	"bounds.DefaultLimits.Observed":         bounds.DefaultLimits.Observed,
	"bounds.DefaultLimits.Observers":        bounds.DefaultLimits.Observers,

	"rest.BodyMax":       rest.BodyMax,
	"rest.SmallBodyMax":  rest.SmallBodyMax,
	"bounds.MessageMax":  bounds.MessageMax,
	"link.OutboxMax":     link.OutboxMax,
	"link.UnreadMax":     link.UnreadMax,
	"link.AllUnreadMax":  link.AllUnreadMax,
	"bounds.RequestsMax": bounds.RequestsMax,
	"bounds.HeldMax":     bounds.HeldMax,
	"bounds.NamedMax":    bounds.NamedMax,
	"bounds.FeaturesMax": bounds.FeaturesMax,

	"session.WatchesMax":     session.WatchesMax,
	"session.OutstandingMax": session.OutstandingMax,
	"session.NumbersMax":     session.NumbersMax,

	"store.BatchMax": store.BatchMax,
	"store.InFlight": store.InFlight,
}

// unexported are bounds that only their source knows.
var unexported = map[string]string{
	"rest.bodyWait":         "cmd/pawl/internal/rest/front.go",
	"rest.breakBodyMax":     "cmd/pawl/internal/rest/front.go",
	"rest.namesListed":      "cmd/pawl/internal/rest/acquire.go",
	"rest.answerWait":       "cmd/pawl/internal/rest/front.go",
	"cell.queuedMax":        "internal/cell/intake.go",
	"cell.streamQueueMax":   "internal/cell/intake.go",
	"cell.keptBytesMax":     "internal/cell/intake.go",
	"cell.turnMax":          "internal/cell/intake.go",
	"cell.floodMin":         "internal/cell/intake.go",
	"cell.urgentMax":        "internal/cell/intake.go",
	"server.filesKept":      "cmd/pawl/internal/server/connections.go",
	"audit.queuedMax":       "cmd/pawl/internal/audit/log.go",
	"audit.writeMax":        "cmd/pawl/internal/audit/log.go",
	"infile.arriveMax":      "internal/infile/infile.go",
	"step.openMax":          "internal/step/step.go",
	"step.openBytesMax":     "internal/step/step.go",
	"step.listedMax":        "internal/step/waiting.go",
	"step.dropMin":          "internal/step/waiting.go",
	"step.heldMax":          "internal/step/waiting.go",
	"locktable.changedMax":  "internal/locktable/changed.go",
	"locktable.namesOnRoll": "internal/locktable/roll.go",
	"link.logGap":           "internal/link/log_limit.go",
	"cell.resignMax":        "internal/cell/run.go",
	"server.resignMax":      "cmd/pawl/internal/server/server.go",
	"server.connectionsMax": "cmd/pawl/internal/server/connections.go",
	"audit.refusedMax":      "cmd/pawl/internal/audit/log.go",
	"kvlog.truncateMax":     "internal/store/kvlog/snapshot.go",
	"kvlog.foreignMax":      "internal/store/kvlog/claim.go",
	"client.takeOverMax":    "cmd/pawl/internal/client/client.go",
	"pawl.claimTries":       "acquire.go",
	"pawl.freshTries":       "do.go",
	"pawl.closeMax":         "client.go",

	"pawl.dialMax":               "client.go",
	"session.attemptMax":         "internal/session/connection.go",
	"session.backoffMax":         "internal/session/connection.go",
	"session.refusedMax":         "internal/session/connection.go",
	"session.patienceMax":        "internal/session/connection.go",
	"pawl.eventsKept":            "events.go",
	"guard.resourceMax":          "guard/fence.go",
	"guard.cellMax":              "guard/fence.go",
	"pgguard.snapshotsMax":       "guard/pgguard/tx.go",
	"httpguard.headerMax":        "guard/httpguard/header.go",
	"httpguard.resourcesMax":     "guard/httpguard/gate.go",
	"httpguard.requestsMax":      "guard/httpguard/gate.go",
	"httpguard.waitersMax":       "guard/httpguard/gate.go",
	"httpguard.marksMax":         "guard/httpguard/gate.go",
	"httpguard.marksTries":       "guard/httpguard/gate.go",
	"httpguard.presentMax":       "guard/httpguard/proxy.go",
	"httpguard.bodyKept":         "guard/httpguard/proxy.go",
	"httpguard.bodyMax":          "guard/httpguard/proxy.go",
	"httpguard.connectMax":       "guard/httpguard/proxy.go",
	"guardproxy.connectionsMax":  "cmd/pawl/internal/guardproxy/run.go",
	"guardproxy.headerBytesMax":  "cmd/pawl/internal/guardproxy/run.go",
	"guardproxy.headerMax":       "cmd/pawl/internal/guardproxy/run.go",
	"guardproxy.idleMax":         "cmd/pawl/internal/guardproxy/run.go",
	"guardproxy.stateMax":        "cmd/pawl/internal/guardproxy/state.go",
	"sqlguard.installMax":        "guard/sqlguard/guard.go",
	"azurebucket.pagesMax":       "guard/objguard/azurebucket/bucket.go",
	"objguard.DataMax":           "guard/objguard/body.go",
	"objguard.headerMax":         "guard/objguard/body.go",
	"objguard.ancestorsKept":     "guard/objguard/body.go",
	"objguard.NameMax":           "guard/objguard/commit.go",
	"objguard.SizeMax":           "guard/objguard/bucket.go",
	"objguard.casTries":          "guard/objguard/guard.go",
	"objguard.putTries":          "guard/objguard/guard.go",
	"objguard.slotTries":         "guard/objguard/log.go",
	"objguard.openTries":         "guard/objguard/commit.go",
	"objguard.SweepMax":          "guard/objguard/commit.go",
	"objguard.TruncateMax":       "guard/objguard/log.go",
	"objguard.RecordsMax":        "guard/objguard/log.go",
	"objguard.pageMax":           "guard/objguard/log.go",
	"main.probeMax":              "cmd/pawl/guard_probe.go",
	"locktable.holdersShown":     "internal/locktable/list.go",
	"locktable.waitersShown":     "internal/locktable/list.go",
	"locktable.pageShown":        "internal/locktable/list.go",
	"locktable.ReportedAheadMax": "internal/locktable/decide_session.go",
	"locktable.TenuresKept":      "internal/locktable/apply.go",
	"cell.tracesMax":             "internal/cell/trace.go",
	"step.eventsMax":             "internal/step/step.go",
	"step.ShareMax":              "internal/step/usable.go",
	"link.GreetingMax":           "internal/link/server.go",
	"link.IdleMax":               "internal/link/server.go",
	"link.BlockMax":              "internal/link/block.go",
	"link.blockFrames":           "internal/link/block.go",
	"link.blockBytes":            "internal/link/block.go",
	"link.HeaderMax":             "internal/link/server.go",
	"server.headerMax":           "cmd/pawl/internal/server/server.go",
	"server.idleMax":             "cmd/pawl/internal/server/server.go",
	"server.answersMax":          "cmd/pawl/internal/server/server.go",
	"etcdstore.joinMax":          "cmd/pawl/internal/etcdstore/peers.go",
	"etcdstore.learnersMax":      "cmd/pawl/internal/etcdstore/embedded.go",
	"etcdstore.lagMax":           "cmd/pawl/internal/etcdstore/members_change.go",
	"etcdstore.answerMax":        "cmd/pawl/internal/etcdstore/members.go",
	"etcdstore.historyMax":       "cmd/pawl/internal/etcdstore/monitor.go",
	"etcdstore.firstMax":         "cmd/pawl/internal/etcdstore/monitor.go",
	"supervise.killAfterMax":     "cmd/pawl/internal/supervise/window.go",
	"client.CallMax":             "cmd/pawl/internal/client/client.go",
	"client.UnreachableMax":      "cmd/pawl/internal/client/client.go",
	"client.keepMax":             "cmd/pawl/internal/client/client.go",
	"flags.configMax":            "cmd/pawl/internal/flags/config.go",
	"trace.heardMax":             "cmd/pawl/internal/trace/calls.go",
	"main.traceTimesMax":         "cmd/pawl/trace.go",
}

// quantity is what a bound says: a number, or a number and a unit of time.
var quantity = regexp.MustCompile(`\d(?:[\d,]*\d)?(?: (?:ms|s|min|h)\b)?`)

// asWritten is a bound as people write it.
func asWritten(t *testing.T, v any) string {
	t.Helper()
	switch v := v.(type) {
	case int:
		digits := strconv.Itoa(v)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	case time.Duration:
		for _, u := range []struct {
			unit time.Duration
			text string
		}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
			if v%u.unit == 0 {
				return fmt.Sprintf("%d %s", v/u.unit, u.text)
			}
		}
	}
	t.Fatalf("no bound is written like %v (%T)", v, v)
	return ""
}

// Every row of docs/bounds.md names bounds of the code and says what they are.
// That no bound is missing is seen to by TestEveryBoundIsDocumentedOrExempt.
func TestDocumentedBoundsMatchCode(t *testing.T) {
	text, err := os.ReadFile(root + "docs/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(known)
	for name, path := range unexported {
		_, short, _ := strings.Cut(name, ".")
		all[name] = valueOf(t, root+path, short)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[2]) == "name" {
			continue
		}
		says := quantity.FindAllString(strings.ReplaceAll(cells[1], "UTF-8", ""), -1)
		var means []string
		prefix := ""
		for i, name := range strings.Split(cells[2], ",") {
			name = strings.Trim(name, " `")
			if i == 0 {
				prefix, _, _ = strings.Cut(name, ".")
			} else if !strings.Contains(name, ".") {
				name = prefix + "." + name
			}
			v, ok := all[name]
			if !ok {
				t.Errorf("docs/bounds.md names %q, which is no bound that this test knows", name)
				continue
			}
			named[name] = true
			means = append(means, asWritten(t, v))
		}
		for _, m := range means {
			if !slices.Contains(says, m) {
				t.Errorf("the code's %s is %v; docs/bounds.md says %s", strings.TrimSpace(cells[2]), means, strings.TrimSpace(cells[1]))
			}
		}
		for _, s := range says {
			// 0 and 1 are where a range begins.
			if s != "0" && s != "1" && !slices.Contains(means, s) {
				t.Errorf("docs/bounds.md says %q of %s, whose value is %v", s, strings.TrimSpace(cells[0]), means)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !named[name] {
			t.Errorf("docs/bounds.md has no row for %s", name)
		}
	}
}
