package cell

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// Options say what a cell is made of.
type Options struct {
	Store store.Store
	// Node is this server as clients and standbys find it.
	Node  store.Node
	Clock clock.Clock
	// Name of the cell; its id is <Name>-<16 hex digits> drawn when it is
	// created, or CellID when that is set.
	Name   string
	CellID string
	// ActiveTTL is how long a standby waits for a sign of the active server; 0:
	// store.ActiveTTLDefault.
	ActiveTTL time.Duration
	// TokenFloor is a value that the counter starts above, 0: none.
	TokenFloor guard.Token
	// Limits of the table; zero: bounds.DefaultLimits.
	Limits bounds.Limits
	// Ended is called for sessions that expired, and for leases that were broken or
	// released without a stream, once that is durable; it may be nil. It must not
	// block.
	Ended func(locktable.Ended)
	// Waits says what the store waits for, for the end of a sentence that begins with "it
	// waits for"; empty: it does not wait, or nobody knows for what. It may be nil, and
	// must not block.
	Waits  func() string
	Logger *slog.Logger
}

// Cell is one server's view of a cell: active in some tenures, waiting for its
// turn in others. Safe for use by several goroutines.
type Cell struct {
	o     Options
	ready chan struct{}
	once  sync.Once

	info  atomic.Pointer[Info]
	usage atomic.Pointer[store.Usage]
	stats Stats
	// rolledBack: it has been told once that the store lost grants, or the cell.
	rolledBack atomic.Bool
	// stoodBy: another server was seen to be active. Only claim's watch writes it,
	// and has ended when it is read.
	stoodBy bool

	// mu guards the tenure that is being served, and everybody who must be told
	// when it ends.
	mu      sync.Mutex
	now     *tenure
	streams map[*Stream]struct{}
	calls   map[*call]struct{}

	// following is how far this standby has read the log; nil: it follows none.
	following atomic.Pointer[Following]

	standby     standbyWait
	activeQuery activeQuery
}

// tenure is what the fronts need of the tenure that is being served.
type tenure struct {
	intake *intake
	secret []byte
	cell   string
	counts atomic.Pointer[published]
	traces traces
	outage *outage
	// drill that is held; nil: none. over is closed when the tenure is.
	drill atomic.Pointer[Drill]
	over  chan struct{}
}

// published is the durable state, as status and metrics may show it.
type published struct {
	locktable.Counts
	batch uint64
}

// New returns a cell that does not run yet.
func New(o Options) *Cell {
	if o.Limits == (bounds.Limits{}) {
		o.Limits = bounds.DefaultLimits
	}
	if o.ActiveTTL <= 0 {
		o.ActiveTTL = store.ActiveTTLDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cell{o: o, ready: make(chan struct{}), streams: map[*Stream]struct{}{}, calls: map[*call]struct{}{}}
	c.info.Store(&Info{ActiveTTL: o.ActiveTTL})
	c.usage.Store(&store.Usage{})
	return c
}

// Ready is closed when the cell serves for the first time.
func (c *Cell) Ready() <-chan struct{} { return c.ready }

// Info describes the cell as far as this server knows it.
func (c *Cell) Info() Info { return *c.info.Load() }

// NewID draws the id of a new cell: its name and 64 random bits.
func NewID(name string) string {
	var b [8]byte
	rand.Read(b[:])
	return name + "-" + hex.EncodeToString(b[:])
}

// serving returns the tenure that is being served, nil when there is none.
func (c *Cell) serving() *tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// begin opens the doors for a tenure.
func (c *Cell) begin(t *tenure, epoch uint64) {
	info := Info{
		Cell: t.cell, Epoch: epoch, ActiveTTL: c.o.ActiveTTL, Active: true,
		ActiveLink: c.o.Node.Link, ActiveHTTP: c.o.Node.HTTP,
	}
	c.info.Store(&info)
	c.mu.Lock()
	c.now = t
	c.mu.Unlock()
	c.standby.wake()
	c.once.Do(func() { close(c.ready) })
}

// finish closes the doors and tells everybody whose answer will not come. What
// was decided and is not final is dropped: the next tenure answers for itself.
func (c *Cell) finish() {
	info := c.Info()
	info.Active, info.ActiveLink, info.ActiveHTTP = false, "", ""
	c.info.Store(&info)
	c.mu.Lock()
	c.now = nil
	streams, calls := c.streams, c.calls
	c.streams, c.calls = map[*Stream]struct{}{}, map[*call]struct{}{}
	c.mu.Unlock()
	why := c.notActive()
	for s := range streams { //tidy:unordered each is told
		s.r.Receive(0, locktable.Closed{Reason: locktable.Unavailable, Message: why})
	}
	for x := range calls { //tidy:unordered each is told
		x.Receive(0, locktable.Refused{Reason: locktable.Unavailable, Message: why})
	}
}

// NotActive is what a server says that does not serve.
const NotActive = "this server is not the active one"

// notActive is NotActive with what the server waits for, where that is known.
func (c *Cell) notActive() string { return NotActive + c.alsoWaits() }

// alsoWaits is what the store waits for, for the end of a refusal; empty: nothing.
func (c *Cell) alsoWaits() string {
	if what := c.waits(); what != "" {
		return "; it waits for " + what
	}
	return ""
}

func (c *Cell) waits() string {
	if c.o.Waits == nil {
		return ""
	}
	return c.o.Waits()
}
