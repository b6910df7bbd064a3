package sim

import "time"

// event is something that happens at a time: to a process, unless it has died
// since, or to nobody in particular.
type event struct {
	at    time.Duration
	order uint64
	who   *process
	life  uint32
	do    func()
}

// events is a heap by time, then by the order in which they were drawn up.
type events []event

func (h events) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}

func (h *events) push(e event) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *events) pop() event {
	q := *h
	first, last := q[0], len(q)-1
	q[0] = q[last]
	q[last] = event{}
	q = q[:last]
	*h = q
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(q) {
			return first
		}
		if down+1 < len(q) && q.less(down+1, down) {
			down++
		}
		if !q.less(down, i) {
			return first
		}
		q[i], q[down] = q[down], q[i]
		i = down
	}
}

// trace hashes what happens, FNV-1a over 64-bit words.
type trace uint64

const traceBegin trace = 14695981039346656037

func (t *trace) mix(x uint64) { *t = (*t ^ trace(x)) * 1099511628211 }

func (t *trace) bytes(b []byte) {
	for _, c := range b {
		t.mix(uint64(c))
	}
}
