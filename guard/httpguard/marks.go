package httpguard

import (
	"context"
	"sync"

	"github.com/pawlproject/pawl/guard"
)

// Marks are where a gate keeps what each resource has seen. [sqlguard.Guard] over SQLite
// is one. What it has answered to a claim must outlive the process, or a restart lets
// overtaken tokens in. No other program may raise a mark beside the gate: what is in flight
// under a lower token would not be waited for.
//
// [sqlguard.Guard]: https://pkg.go.dev/github.com/pawlproject/pawl/guard/sqlguard#Guard
type Marks interface {
	guard.Claimer
	guard.Seer
}

// Drains are Marks that also keep which token was admitted last. With them the holder of
// before a crash goes on at once, since nothing lower than its own requests can be in flight;
// without them each resource is closed to all for the gate's Linger after a crash.
type Drains interface {
	Marks
	// Admit keeps that all requests below f have ended and those of f may begin. It
	// returns when that is durable.
	Admit(ctx context.Context, f guard.Fence) error
	// Admitted returns the token of the resource's last Admit, 0: there was none.
	Admitted(ctx context.Context, resource string) (guard.Token, error)
}

// Memory keeps marks in the process alone. A restart forgets them, and lets every token in
// once more: it is for tests, and for resources that do not outlive the process either. It
// is bounded by the names that are used, as a mark is never forgotten.
type Memory struct {
	mu       sync.Mutex
	states   map[string]guard.State
	admitted map[string]guard.Token
}

var _ Drains = (*Memory)(nil)

// Claim implements [guard.Claimer].
func (m *Memory) Claim(ctx context.Context, f guard.Fence) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[f.Resource]
	next, v := guard.Decide(guard.Monotonic, s, f.Mark())
	if err := v.Err(f.Resource, s, f.Mark()); err != nil {
		return err
	}
	if m.states == nil {
		m.states = map[string]guard.State{}
	}
	m.states[f.Resource] = next
	return nil
}

// Seen implements [guard.Seer].
func (m *Memory) Seen(ctx context.Context, resource string) (guard.State, error) {
	if err := ctx.Err(); err != nil {
		return guard.State{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[resource], nil
}

// Admit implements [Drains].
func (m *Memory) Admit(_ context.Context, f guard.Fence) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.admitted == nil {
		m.admitted = map[string]guard.Token{}
	}
	m.admitted[f.Resource] = f.Token
	return nil
}

// Admitted implements [Drains].
func (m *Memory) Admitted(_ context.Context, resource string) (guard.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admitted[resource], nil
}
