// Package session is the client's side of a session, as data: what callers ask, what
// servers say and the time go in; messages, answers and deadlines come out. It reads
// no clock, starts no goroutine, waits for nothing and knows no context. The SDK runs
// it, and the simulator runs the same code in a time of its own.
//
//	callers ──► Acquire, Release, Check, SetTTL, Observe …
//	                   │
//	servers ──► Heard, Disconnected ► Machine ──► Effects: answers, ends of leases, dial, hang up
//	                   │                 └──► Message: what goes to the server
//	time ────────► At, Tick, Wake
//
// Files:
//
//	machine.go                              the state and the turn
//	connection.go                           attempts, streams, greetings
//	requests.go, answers.go, renumber.go    requests, their answers and their numbers
//	lease.go, watches.go                    leases that are held, names that are observed
//	ride.go                                 leases that outlive the deadline
//	session_state.go, ttl.go                renewals, the session's deadline and its TTL
//	effects.go, cause.go                    what the driver carries out, and why
//	close.go                                the end of the client
//	split.go                                messages that are too large, cut in parts
//
// Its driver is a loop:
//
//	for {
//		wait until something arrives, or Wake is over
//		m.At(clock.Now())                       // one reading a turn
//		m.Heard(…), m.Acquire(…), …             // all that has arrived
//		m.Tick()                                // what is due
//		for _, e := range m.Effects() { … }     // in order; more than once if that asks for more
//		for x := m.Message(); x != nil; x = m.Message() { send x }
//	}
//
// It promises:
//
//   - A lease is trusted no longer than package trust allows (I5): when its deadline
//     has passed nothing is granted or confirmed any more in its session, also when an
//     answer that arrived in time is found late. Leases that ride are excepted: not
//     trust, but a guard stops them.
//   - A request has one number and is asked again under it until it is answered, over
//     lost connections and restarts of the server. A waiter that is moved to another
//     number keeps its place (renumber.go).
//   - What a caller no longer wants is cancelled, released, or left out of the next
//     greeting, which comes to the same (I8).
//   - A session that is lost never comes back; servers are told so at the next contact,
//     before anything new is asked.
//
// It does not promise that a message arrives. Whatever is sent may be lost with its
// connection; the machine asks again on the next one.
package session
