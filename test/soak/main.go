package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

func main() {
	kills := flag.Int("kills", 200, "how often a server is killed")
	servers := flag.Int("servers", 1, "how many servers keep the cell: 1, 3 or 5")
	binary := flag.String("pawl", ".bin/pawl", "the program to kill")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := kill(ctx, *binary, *servers, *kills, os.Stdout); err != nil {
		stop()
		os.Exit(1)
	}
}

// errFound: the checks found what must not be. What is in the output.
var errFound = errors.New("the run failed")

// kill runs the soak in a folder of its own, which is kept when something is
// wrong, and prints what came of it.
func kill(ctx context.Context, binary string, servers, kills int, out io.Writer) error {
	folder, err := os.MkdirTemp("", "pawl-soak-")
	if err != nil {
		return err
	}
	all, err := newServers(binary, folder, servers)
	defer func() {
		for _, srv := range all {
			srv.close()
		}
	}()
	if err != nil {
		return err
	}
	conn, err := connectAll(all)
	if err != nil {
		return err
	}
	defer conn.close()
	s := &soak{work: newWork(), servers: all, link: linkpb.NewLinkClient(conn), out: out}
	err = s.run(ctx, kills)

	l := s.ledger
	s.progress()
	if n := len(s.restarts); n > 0 {
		slices.Sort(s.restarts)
		fmt.Fprintf(out, "from start to answer: median %v, at most %v\n",
			s.restarts[n/2].Round(time.Millisecond), s.restarts[n-1].Round(time.Millisecond))
	}
	s.showPauses()
	for _, finding := range l.findings {
		fmt.Fprintln(out, "found:", finding)
	}
	if err != nil {
		fmt.Fprintln(out, "failed:", err)
	}
	bad := err != nil || l.lost+l.repeated+l.revived > 0 || s.kills != kills
	if bad {
		fmt.Fprintln(out, "kept:", folder)
	} else if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(out, "remove the folder:", err)
	}
	fmt.Fprintf(out, "kills: %d lost: %d repeated tokens: %d revived: %d\n", s.kills, l.lost, l.repeated, l.revived)
	if bad {
		return errFound
	}
	return nil
}
