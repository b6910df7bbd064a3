package pawltest

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/link"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// address is what the server calls itself; the network has no other.
const address = "pawltest"

// activeTTL is how long the cell waits for its store to answer.
const activeTTL = 3 * time.Second

// Server is a pawl server in this process. Its methods may be called by several
// goroutines, those that stop and start it by one at a time.
type Server struct {
	// Path is the way of the clients that are dialled on the server itself.
	*Path
	clock  clock.Clock
	socket socket
	disk   *memstore.Disk

	mu      sync.Mutex
	running *running
}

// running is a server between its start and its end.
type running struct {
	store *memstore.Store
	link  *link.Server
	grpc  *grpc.Server
	crash context.CancelFunc
	ended sync.WaitGroup
}

// New starts a server that lives as long as the test. Inside a testing/synctest
// bubble it runs on the bubble's time.
func New(t testing.TB) *Server {
	t.Helper()
	s := NewServer()
	t.Cleanup(s.Stop)
	return s
}

// NewServer is New for examples and programs: it serves until Stop.
func NewServer() *Server {
	s := &Server{clock: clock.Bubble(), disk: memstore.NewDisk()}
	s.Path = s.NewPath()
	s.Start()
	return s
}

// Start starts the server after Stop or Crash, with a new tenure on what was
// durable. It returns when the server serves.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return
	}
	r := &running{
		store: s.disk.Store(memstore.Options{Clock: s.clock, Sole: true}),
		grpc:  grpc.NewServer(link.ServerOptions()...),
	}
	c := cell.New(cell.Options{
		Store: r.store, Node: store.Node{ID: [16]byte{1}, Link: address}, Clock: s.clock, Name: "test", ActiveTTL: activeTTL,
	})
	r.link = link.New(c, link.Options{Clock: s.clock, Version: "test"})
	r.link.Register(r.grpc)
	var ctx context.Context
	ctx, r.crash = context.WithCancel(context.Background())
	r.ended.Go(func() { _ = c.Run(ctx) })
	select {
	case <-c.Ready():
	case <-ctx.Done():
	}
	listener := s.socket.listen()
	r.ended.Go(func() { _ = r.grpc.Serve(listener) })
	s.running = r
}

// Stop ends the server in good order; its clients are told. Stopping twice is
// fine.
func (s *Server) Stop() { s.stop(func(*running) {}) }

// Crash ends the server at once: what was not durable is gone, and nobody is
// told anything but that the connection broke.
func (s *Server) Crash() {
	s.stop(func(r *running) {
		r.store.Crash()
		r.grpc.Stop()
	})
}

// Restart is Crash and Start.
func (s *Server) Restart() {
	s.Crash()
	s.Start()
}

// Save remembers what is durable now. Calling what it returns brings that back,
// as a disk restored from yesterday's copy would: the server is crashed, and
// started on it. What was acknowledged since is gone.
func (s *Server) Save() (rollBack func()) {
	saved := s.disk.Save()
	return func() {
		s.Crash()
		s.disk.Restore(saved)
		s.Start()
	}
}

func (s *Server) stop(first func(*running)) {
	s.Continue()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running
	if r == nil {
		return
	}
	s.running = nil
	s.socket.refuse()
	first(r)
	r.crash()
	r.grpc.Stop()
	r.ended.Wait()
}

// Pause stops the server as SIGSTOP would: it takes nothing in, says nothing,
// and writes nothing to its store, until Continue.
func (s *Server) Pause() {
	s.socket.pause()
	if r := s.now(); r != nil {
		r.store.Stall()
	}
}

// Continue ends Pause.
func (s *Server) Continue() {
	if r := s.now(); r != nil {
		r.store.Resume()
	}
	s.socket.goOn()
}

// Break breaks the lease of a name, the first of several: its holder is asked to
// let go, or with now set loses it at once.
func (s *Server) Break(t testing.TB, name, reason string, now bool) {
	t.Helper()
	token, _ := s.Holder(t, name)
	_, err := s.now().link.Break(context.Background(), &linkpb.BreakRequest{
		Name: name, Token: uint64(token), Reason: reason, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Holder is the token under which a name is held, the first of several; false
// when it is free.
func (s *Server) Holder(t testing.TB, name string) (guard.Token, bool) {
	t.Helper()
	all := s.Holders(t, name)
	if len(all) == 0 {
		return 0, false
	}
	return all[0], true
}

// Holders are the tokens under which a name is held: several when it is shared
// or has slots.
func (s *Server) Holders(t testing.TB, name string) []guard.Token {
	t.Helper()
	var all []guard.Token
	for _, h := range s.lookUp(t, name).GetHolders() {
		all = append(all, guard.Token(h.Token))
	}
	return all
}

// Waiting is how many wait for a name.
func (s *Server) Waiting(t testing.TB, name string) int {
	t.Helper()
	return len(s.lookUp(t, name).GetWaiters())
}

// Sessions is how many sessions live.
func (s *Server) Sessions(t testing.TB) int {
	t.Helper()
	st, err := s.now().link.Status(context.Background(), &linkpb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Sessions)
}

func (s *Server) lookUp(t testing.TB, name string) *linkpb.Lock {
	t.Helper()
	page, err := s.now().link.List(context.Background(), &linkpb.ListRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Locks) == 0 {
		return nil
	}
	return page.Locks[0]
}

func (s *Server) now() *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}
