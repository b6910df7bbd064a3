// Package pawltest runs a pawl server inside a test, and does harm to it.
//
// The server is a real one, cell and link and all, on a store in memory and a
// network in memory. It needs no port and no file, and it works inside a
// testing/synctest bubble, where a lost lease costs no time:
//
//	func TestHandOver(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			s := pawltest.New(t)
//			a := s.Dial(t, pawl.Options{TTL: 2 * time.Second})
//			l, _ := a.Acquire(t.Context(), "orders/7")
//			s.Cut() // from here on every packet is swallowed
//			<-l.Context().Done()
//		})
//	}
//
// # What it promises
//
// Whatever a fault does to the network or to the server, it does nothing that
// could not happen in earnest: packets are swallowed in whole connections, a
// paused server neither answers nor counts time against anybody, a restarted
// one begins a new tenure on what was durable.
//
// # What it does not promise
//
// Time inside a bubble is exact; a test that passes there has said nothing about
// slow machines. Outside a bubble the clock is Go's, which does not count
// suspend.
package pawltest
