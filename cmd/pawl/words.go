package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
)

// otherWords are what people who come from elsewhere call our commands.
var otherWords = map[string][]string{
	"acquire":        {"lock", "take", "grab"},
	"release":        {"unlock", "free"},
	"renew":          {"refresh", "extend", "keepalive"},
	"ls":             {"list", "locks"},
	"show":           {"get", "who", "info"},
	"break":          {"steal", "kick"},
	"explain":        {"why", "advise", "fence"},
	"doctor":         {"check", "health", "diagnose"},
	"serve":          {"server", "start", "daemon"},
	"run":            {"exec", "with"},
	"member":         {"members", "peers", "cluster", "nodes"},
	"member list":    {"ls", "show", "status", "get"},
	"member add":     {"join", "new", "create"},
	"member remove":  {"rm", "delete", "del", "leave"},
	"member replace": {"move", "update", "swap"},
	"drill outage":   {"start", "run", "begin"},
}

// otherFlags are flags that people look for, by command ("": any), and what is meant
// instead. One that is spelled like a flag of the command needs no line.
var otherFlags = map[string]map[string]string{
	"": {
		"server": "--servers", "address": "--servers", "addr": "--servers", "host": "--servers", "endpoint": "--servers", "endpoints": "--servers",
		"cacert": "--ca", "credential": "--credential-file or $PAWL_CREDENTIAL: everybody can read a command line",
	},
	"run": {
		"timeout": "--wait, how long to wait for the turn, or --max-hold, how long the command may run",
		"name":    "the name without a flag: pawl run NAME -- COMMAND",
	},
	"elect":        {"timeout": "--ttl, how long the term outlives the last sign of life"},
	"acquire":      {"timeout": "--wait, how long to wait for the turn", "claim": claimHint, "claim-file": claimHint, "name": "the name without a flag: pawl acquire NAME"},
	"release":      {"token": "the lease's id, which \"pawl acquire\" printed: pawl release LEASE", "name": "the lease's id, which \"pawl acquire\" printed: pawl release LEASE"},
	"break":        {"force": "--now"},
	"drill":        {"for": "pawl drill outage --for"},
	"drill outage": {"duration": "--for", "timeout": "--for"},
	"serve":        {"port": "--listen, with a host and a port", "name": "--node, the server's name among --peers, or --cell", "join": "--peers", "address": "--listen or --advertise"},
}

const claimHint = "--claims, if you claim a guard by yourself before you act (pawl guard claim), or \"pawl run --claim DSN\", which claims it"

// hint has a command and those below it know what else they and their flags are called.
func hint(cmd *cobra.Command) {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	cmd.SuggestFor = otherWords[path]
	flags.Hint(cmd, otherFlags[""])
	flags.Hint(cmd, otherFlags[path])
	for _, c := range cmd.Commands() {
		hint(c)
	}
}
