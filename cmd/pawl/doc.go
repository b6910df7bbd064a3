// Command pawl is the lock and lease service: its server, its command line and
// a demonstration of what it is for.
//
// Every subcommand has a file of its own: its flags, its help, and what it does with
// the packages below internal. All of them exit with codes that a script can tell apart
// (package exit), print answers on the standard output and everything else on the
// standard error, and say what they expected when they refuse an argument. The commands
// that ask a server speak gRPC (package client); what they print as JSON has the names
// of the HTTP interface (package output).
//
// The command line promises nothing that the server does not: a lease printed by
// "pawl acquire" ends with its TTL, and a command under "pawl run" is stopped by
// best effort. What makes either safe is a guard at the resource.
package main
