package locktable

// turnOf reports whether nobody stands before a waiter that it may not pass: shared may
// pass shared, and everybody passes those that are passed over.
func (l *lock) turnOf(w *waiter) bool {
	if w.shared() {
		b := l.barrier()
		if b == nil {
			return true
		}
		if c := b.place.compare(w.place); c != 0 {
			return c > 0
		}
	}
	for _, x := range l.queue {
		if x == w || x.place.compare(w.place) > 0 {
			return true
		}
		if !x.passedOver() && !(x.shared() && w.shared()) {
			return false
		}
	}
	return true
}

// barrier is the first waiter that shared waiters may not pass. It is cached, so that a
// queue of thousands of shared waiters is not walked for each of them.
func (l *lock) barrier() *waiter {
	if len(l.queue) > 0 && !l.barred {
		l.barred, l.bar = true, nil
		for _, x := range l.queue {
			if !x.passedOver() && !x.shared() {
				l.bar = x
				break
			}
		}
	}
	return l.bar
}

// unbar says that which waiters are passed over has changed.
func (l *lock) unbar() { l.barred, l.bar = false, nil }

// moved says that a waiter came, went, or changed whether it is passed over.
func (w *waiter) moved() {
	if w.shared() {
		return
	}
	for _, l := range w.locks {
		if l.barred && (l.bar == nil || l.bar == w || l.bar.place.compare(w.place) >= 0) {
			l.unbar()
		}
	}
}

// unblockedBy reports whether a waiter in the queue of a name may move up now that
// another has left it or is passed over. A shared waiter blocks only a waiter that is
// not shared and has no other blocker. Thousands of shared waiters may stand there, and
// their queue is not walked for each that leaves.
func (l *lock) unblockedBy(w *waiter) bool {
	if !w.shared() {
		return true
	}
	b := l.barrier()
	if b == nil {
		return false
	}
	for _, x := range l.queue {
		if !x.passedOver() {
			return x == b
		}
	}
	return false
}
