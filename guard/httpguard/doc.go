// Package httpguard guards what lies behind HTTP: a request shows its fence in the header
// Fencing-Token, and a gate before the service refuses one that has been overtaken.
//
//	Fencing-Token: "1876093218091008";r="orders/7";cell="default-9f86d081884c7d65"
//
// The gate stands in the service itself ([Gate.Middleware]), or before one that cannot be
// changed ([Gate.Proxy], "pawl guard proxy"). A caller sends through [Transport], and claims
// with a [Client]:
//
//	gate := httpguard.NewGate(marks, httpguard.Options{})
//	http.ListenAndServe(address, gate.Middleware(service))
//
//	guarded, err := httpguard.NewClient("http://"+address, nil)
//	lease, err := client.Acquire(ctx, "orders/7", pawl.Claim(guarded)) // claim, then read
//	calls := http.Client{Transport: httpguard.Transport(nil, lease)}
//	res, err := calls.Post("http://"+address+"/orders/7", …)          // and act
//
// # What it promises
//
//   - I6, for what goes through one gate: once a request or a claim with token t was let in,
//     no request with a lower one is let in, and none that was let in before is in flight.
//     The gate is a barrier: it waits for those. See [Gate.Middleware] and [Gate.Proxy].
//   - The mark is durable, as [Marks] are, before the first request of its token begins.
//   - A refused request (400, 412, 428, 503 with the problem types of this package) has not
//     reached the service.
//   - A lost answer is guard.ErrUnknown, never a refusal and never success.
//   - [Transport] sends nothing after the lease has ended, and sends a request once at most.
//
// # What it does not promise
//
//   - A second way to the service is not guarded. Neither is a second gate for the same
//     resource, in another process or on another machine, even over the same marks: each
//     knows its own requests alone, so neither waits for those of the other. Send all
//     requests for a resource through one process.
//   - What a service does after it has answered is not waited for.
//   - Where the proxy lost sight of a request, after a time-out, a connection that broke, or
//     a crash of its own, it waits for a time: [Options.Linger]. It is safe then only if the
//     upstream answers or gives up within Linger from the last byte that was sent to it, the
//     delays of the network included.
//   - GET, HEAD and OPTIONS without a fence are not held back, unless the options say so. A
//     holder that reads sends its fence with it, after the claim.
//   - A fence is not a credential: everybody who can send requests to the gate can send one,
//     and one with a token of guard.Max shuts all others out. The gate checks neither who
//     calls nor whether the token was granted.
package httpguard
