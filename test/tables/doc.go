// Package tables puts the lock table through scripts and random histories.
//
// It promises:
//
//   - Every rule of the table that a client can see has a script under
//     testdata, and a race is told there in numbered steps. A script's output is
//     every event and every answer, so that a change of behaviour is a change
//     of a file.
//   - After every step of a random history the table is equal to the one that
//     its log rebuilds (I9).
//   - A naive model agrees with every grant: tokens rise (I1), a name has one holder
//     (I2), only live waiters are granted (I7), in the order of their requests. No
//     session ends early (I5).
//
// It does not promise anything about what the cell does with events and answers;
// package cells does.
package tables
