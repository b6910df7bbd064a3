// Package fencing answers how far compare-and-set, deadlines and other means carry where
// nothing at the resource checks a fencing token. It is a model checker, and a table of
// worlds for it: each strategy with each operation.
//
//	world (programs, store, budget) ──► every order of steps ──► the first broken promise
//	                                     nearest first            and how it comes about
//
// In each world three holders, A, B and C with the tokens 1, 2 and 3, run one program:
// take over, read, act. Nobody waits for anybody, so each may be paused anywhere for any
// time. Requests arrive in any order and as late as they like. Within a budget a holder
// crashes and begins anew with its token, a request arrives twice, a request or an answer
// is lost, or is later than its sender waits. A collector or relays work beside them.
//
// It promises:
//
//   - every order is tried, so that within its bounds a verdict is no opinion: "safe" has
//     no counter-example, and "unsafe" has one of the fewest steps;
//   - "safe if": the world with all its conditions is safe, and without any single one it
//     is not. A condition that changes nothing is an error;
//   - every cell is run, or says why the strategy does not apply.
//
// It does not promise anything beyond the bounds, which the table names, nor that a store
// does what its documentation says. It is pure, but for Write.
//
// The parts: state.go and pack.go are a world at one moment, explore.go the search,
// world.go and store.go how programs and the store take a step, fault.go the promises;
// then a file per family of strategies; judge.go runs all, and write.go, page.go and
// draw.go say it.
package fencing
