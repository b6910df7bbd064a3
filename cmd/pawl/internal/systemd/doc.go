// Package systemd sends a server's state to the service manager that started it: ready,
// or stopping (see sd_notify(3)).
//
// It promises to return within a second, even if nobody reads. It does not promise that
// the state arrives: a failure is an error that its caller logs, and the server goes on.
package systemd
