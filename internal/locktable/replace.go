package locktable

// replace removes the request that c.Replaces names and finishes its number, so that
// its place is passed on only once. It returns the place, the names that the request
// waited for (the caller serves them afterwards), and whether the old request existed
// and asked for the same.
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
		// It is still its turn: the new request is decided before what this frees is
		// served, since serve only queues while t.serving is set.
		t.serving = true
		t.release(now, l, d)
		t.serving = false
		same = l.args == args
	}
	return c.Ticket, nil, same
}
