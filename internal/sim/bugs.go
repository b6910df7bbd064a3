package sim

import (
	"runtime"
	"sync"
)

// Bug is a mistake that can be planted; see package planted.
type Bug struct {
	// Name plants it.
	Name string
	// Where it is planted, and why it is one.
	Where, Why string
}

// Bugs are all that can be planted, each to be found by the simulator.
var Bugs = []Bug{
	{"deadline from the reply", "sim client", "the server counts from the arrival of the renewal, which is earlier"},
	{"deadline from the last renewal sent", "trust", "another renewal than the one answered may never have arrived"},
	{"heard not logged", "locktable", "the next tenure gives a renewed session only what was left of its silence"},
	{"renewal answered before heard is durable", "cell", "waiting for the record of the first renewal alone is not enough"},
	{"renewal that passes a record of its session", "cell", "on a full store that the session was heard is not written yet, and the next tenure ends it"},
	{"full store that is not asked", "cell", "an append under way gives no confirmation: nothing is answered until there is room"},
	{"answered without confirm", "cell", "a deposed server renews sessions that its successor ends"},
	{"confirm begun before the request", "cell", "it proves that the tenure was in force before the request came"},
	{"answered before durable", "cell", "a crash takes back what was answered"},
	{"acknowledged behind a hole", "cell", "a batch behind a hole is cut by the next tenure"},
	{"floor rule left out", "locktable", "after a roll-back tokens are granted twice"},
	{"waiter granted after its session ended", "locktable", "nobody is there to let go"},
	{"release by name", "locktable", "a late release ends a newer lease"},
	{"retry that gets a second lease", "locktable", "nobody lets the first one go"},
	{"repeated request answered without renewing", "locktable", "the caller counts the TTL from its last sending"},
	{"cancel overtakes the request that is asked again", "locktable", "the request stands in line for nobody"},
	{"break that frees at once", "locktable", "two hold the name"},
	{"snapshot without the finished requests", "cell", "a late request is granted once more after a take-over"},
	{"snapshot without the counter", "cell", "tokens could be granted again"},
	{"cut that may land twice", "kvlog", "the second cut deletes what was acknowledged since the first"},
	{"append that does not compare the tenure", "kvlog", "a batch of an ended tenure lands"},
	{"append that does not compare what it follows", "kvlog", "after a restore it lands behind a hole"},
	{"hole not noticed", "kvlog", "batches behind a hole are no part of the log"},
	{"roll-back seen in the last batch alone", "kvlog", "a batch in flight lands behind a hole and hides it"},
	{"tenure that goes on after a silence", "kvlog", "a store set back puts it in force again, below its lost successor"},
	{"standby that waits for its own active-ttl", "kvlog", "the active server, whose is longer, may go on where a roll-back brings its tenure back"},
	{"snapshot published without looking for its chunks", "kvlog", "landing late after a roll-back, it points at nothing"},
	{"own late snapshot taken for a roll-back", "kvlog", "a healthy server ends with an alarm"},
	{"expiry by a stalled server", "cell", "a stall of the server is held against those who spoke to it"},
	{"silence not logged", "locktable", "take-overs in a row keep the dead alive"},
	{"silence logged only once in a tenure", "locktable", "each tenure takes little from the dead"},
	{"token per name that restarts", "locktable", "the next holder's token is below the last one's"},
	{"refused before it is durable", "cell", "who is refused is told of a lease that a crash takes back"},
	{"observer told before it is durable", "cell", "it follows a leader that a crash takes back"},
	{"TTL raised without log", "locktable", "a take-over gives the TTL before"},
	{"TTL lowered at once", "locktable", "a take-over gives less than what is still promised"},
	{"TTL raised in the trust window before the answer", "trust", "the server may never hear of it"},
	{"acquire taken with little room", "cell", "the store fills up, and then takes no release"},
	{"slot given twice", "locktable", "two write to the slot's resource"},
	{"several names granted piecemeal", "locktable", "the holder takes for its own what it has not got"},
	{"writer overtaken by a later reader", "locktable", "readers starve it"},
	{"readers that raise their own token", "locktable", "readers fence each other"},
	{"snapshot without the fence of the run", "locktable", "after a take-over readers fence each other"},
	{"lock-delay forgotten by the snapshot", "locktable", "a take-over opens the name too early"},
	{"break at once without the lock-delay", "locktable", "two act on a resource that has no guard"},
	{"snapshot without the breaks", "cell", "its holder is not asked again"},
	{"observers not told that a name is free", "locktable", "they follow a leader that is gone"},
	{"what nobody wants is kept", "locktable", "a lease whose caller gave up while the stream was cut"},
	{"deposed server that reports a roll-back", "kvlog", "a take-over as it should be ends with an alarm"},
	{"unknown read as refused", "sim client", "the write may have taken effect, or yet will"},
	{"claim left out", "sim client", "a late write lands between the new holder's read and its first write"},
	{"guard that forgets its mark", "sim resource", "what is late passes"},
	{"guard checked before the write", "sim resource", "the mark rises between the check and the effect"},
}

// RareBugs show in too few worlds for the simulator. Each is found where every order
// is tried, in this small world.
var RareBugs = []struct {
	Bug
	World string
}{
	{Bug{
		"append that is tried again and forgets what its first try followed", "kvlog",
		"the first try may be the one that landed, and it proves less",
	}, "retries"},
	{Bug{"tenure known by its revision alone", "kvlog", "after a roll-back another tenure may lie at that revision"}, "deposed"},
}

// Hunt looks for the first seed from 1 on, up to limit, whose world fails.
func Hunt(limit uint64) (seed uint64, found *Failure) {
	width := uint64(16 * runtime.GOMAXPROCS(0))
	for first := uint64(1); first <= limit; first += width {
		failures := make([]*Failure, min(width, limit-first+1))
		var all sync.WaitGroup
		side := runtime.GOMAXPROCS(0)
		for lane := range side {
			all.Go(func() {
				for i := lane; i < len(failures); i += side {
					failures[i] = Run(Draw(first+uint64(i)), false).Failure
				}
			})
		}
		all.Wait()
		for i, f := range failures {
			if f != nil {
				return first + uint64(i), f
			}
		}
	}
	return 0, nil
}
