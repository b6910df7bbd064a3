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
	growth := flag.Int("growth", 0, "kill nothing: grow from one server to three and restart each in turn, so many times")
	binary := flag.String("pawl", ".bin/pawl", "the program to kill")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if *growth > 0 {
		err = grow(ctx, *binary, *growth, activeTTL, os.Stdout)
	} else {
		err = kill(ctx, *binary, *servers, *kills, os.Stdout)
	}
	if err != nil {
		stop()
		os.Exit(1)
	}
}

// errFound: the checks found what must not be. What is in the output.
var errFound = errors.New("the run failed")

// kill runs the soak with kills, and prints what came of it.
func kill(ctx context.Context, binary string, servers, kills int, out io.Writer) error {
	s, err := inFolder(ctx, binary, servers, out, func(ctx context.Context, s *soak) error {
		s.brief, s.unary = ttlBrief, plains
		err := s.run(ctx, s.servers, func(ctx context.Context) error { return s.stops(ctx, kills) })
		s.progress()
		if n := len(s.restarts); n > 0 {
			slices.Sort(s.restarts)
			fmt.Fprintf(out, "from start to answer: median %v, at most %v\n",
				s.restarts[n/2].Round(time.Millisecond), s.restarts[n-1].Round(time.Millisecond))
		}
		s.showPauses()
		return err
	})
	if s == nil {
		return err
	}
	l := s.ledger
	fmt.Fprintf(out, "kills: %d lost: %d repeated tokens: %d revived: %d\n", s.kills, l.lost, l.repeated, l.revived)
	return err
}

// inFolder has servers and a soak of them in a folder of its own, which is kept when
// something is wrong, and prints what is. The soak is nil when there was none.
func inFolder(ctx context.Context, binary string, servers int, out io.Writer, run func(context.Context, *soak) error) (*soak, error) {
	folder, err := os.MkdirTemp("", "pawl-soak-")
	if err != nil {
		return nil, err
	}
	all, err := newServers(binary, folder, servers)
	defer func() {
		for _, srv := range all {
			srv.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	conn, err := connectAll(all)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	s := &soak{work: newWork(), servers: all, link: linkpb.NewLinkClient(conn), out: out}
	err = run(ctx, s)
	l := s.ledger
	for _, finding := range l.findings {
		fmt.Fprintln(out, "found:", finding)
	}
	if err != nil {
		fmt.Fprintln(out, "failed:", err)
	}
	if err != nil || l.lost+l.repeated+l.revived > 0 {
		fmt.Fprintln(out, "kept:", folder)
		return s, errFound
	}
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(out, "remove the folder:", err)
	}
	return s, nil
}
