package fencing

import "unsafe"

// packer writes states as few bytes: what a world does not use is left out. Every field
// of a state is one byte, so that its parts are copied as they lie.
type packer struct {
	head, objs int
	scratch    [unsafe.Sizeof(state{})]byte
}

const (
	procAt = int(unsafe.Offsetof(state{}.proc))
	objAt  = int(unsafe.Offsetof(state{}.obj))
	netAt  = int(unsafe.Offsetof(state{}.net))

	procSize    = int(unsafe.Sizeof(process{}))
	objSize     = int(unsafe.Sizeof(object{}))
	messageSize = int(unsafe.Sizeof(message{}))
)

func newPacker(w *world) packer {
	p := packer{head: procAt + clients*procSize}
	for i := range w.prog {
		if w.prog[i] != nil {
			p.head = procAt + (i+1)*procSize
		}
	}
	for k := range w.name {
		if w.name[k] != "" {
			p.objs = (k + 1) * objSize
		}
	}
	return p
}

// lying is a state as bytes.
func lying(s *state) *[unsafe.Sizeof(state{})]byte {
	return (*[unsafe.Sizeof(state{})]byte)(unsafe.Pointer(s))
}

// pack returns the bytes of a state, until the next call.
func (p *packer) pack(s *state) []byte {
	b := lying(s)
	n := copy(p.scratch[:], b[:p.head])
	n += copy(p.scratch[n:], b[objAt:objAt+p.objs])
	n += copy(p.scratch[n:], b[netAt:netAt+int(s.n)*messageSize])
	return p.scratch[:n]
}

// unpack reads what pack wrote.
func (p *packer) unpack(from []byte, s *state) {
	*s = state{}
	b := lying(s)
	copy(b[:p.head], from)
	copy(b[objAt:objAt+p.objs], from[p.head:])
	copy(b[netAt:], from[p.head+p.objs:])
}
