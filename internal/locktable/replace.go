package locktable

// replace ends the request that another one takes the place of, and returns the
// place and the names that were waited for there, which are to be served. A
// place is given on once: the old number is finished then. same: the old request
// was there, and asked for the same.
func (t *Table) replace(now Now, s *session, c Acquire, args uint64, d *Decided) (place Place, left []*lock, same bool) {
	low := max(s.finished, s.finishedUp)
	_, done := s.done[c.Replaces]
	_, cancelled := s.cancelled[c.Replaces]
	if c.Replaces < low || c.Replaces >= c.Number || done || cancelled {
		return Place{}, nil, false
	}
	t.cancel(s, c.Replaces, d)
	if w := s.waiting[c.Replaces]; w != nil {
		t.unjoin(w)
		return w.place, w.locks, w.args == args
	}
	if l := s.granted[c.Replaces]; l != nil {
		// It is still its turn: what this frees is served when it has its place again.
		t.serving = true
		t.release(now, l, d)
		t.serving = false
		same = l.args == args
	}
	return c.Ticket, nil, same
}
