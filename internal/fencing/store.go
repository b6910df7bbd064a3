package fencing

// version is what the store calls the version of an object: a unique number, or a hash
// of the body.
func (w *world) version(o object) [3]uint8 {
	if w.hashed {
		return [3]uint8{o.tok, o.set, o.nonce}
	}
	return [3]uint8{o.gen}
}

// nextVersion is 0 in a world that asks for no versions: fewer states differ.
func (w *world) nextVersion(s *state) uint8 {
	if w.versions {
		s.gen++
	}
	return s.gen
}

// serve has the store carry out a request. It reports false when the request has to wait.
func (w *world) serve(s *state, m *message) (answer, bool) {
	if w.special != nil {
		if a, ok := w.special(s, m); a.code != noAnswer || !ok {
			return a, ok
		}
	}
	o := &s.obj[m.key]
	switch m.op {
	case opGet:
		if m.marks {
			s.takeover(m.tok)
		}
		if !o.there {
			return answer{code: missing}, true
		}
		return answer{code: done, o: *o}, true
	case opPut:
		return w.put(s, m), true
	case opPair:
		w.write(s, m, m.key)
		w.write(s, m, m.key+1)
		return answer{code: done}, true
	case opAppend:
		o.there, o.tok = true, m.tok
		o.set |= m.val.set
		o.gen = w.nextVersion(s)
		w.effect(s, m.tok)
		return answer{code: done}, true
	case opDelete:
		if !o.there {
			return answer{code: missing}, true
		}
		if m.cond == ifMatch && w.version(*o) != m.ver {
			return answer{code: failed}, true
		}
		*o = object{}
		if m.tok == 0 {
			s.sys.gone = max(s.sys.gone, m.key+1)
		}
		w.effect(s, m.tok)
		return answer{code: done}, true
	case opList:
		a := answer{code: done}
		for k := range s.obj {
			if s.obj[k].there {
				if k < 8 {
					a.o.set |= 1 << k
				} else {
					a.o.nonce |= 1 << (k - 8)
				}
			}
		}
		if m.marks {
			s.takeover(m.tok)
		}
		return a, true
	case opEffect:
		return w.outside(s, m), true
	}
	panic("fencing: the store does not know a request")
}

func (w *world) put(s *state, m *message) answer {
	o := &s.obj[m.key]
	switch {
	case m.cond == ifAbsent && o.there:
		return answer{code: failed}
	case m.cond == ifMatch && !o.there:
		return answer{code: missing}
	case m.cond == ifMatch && w.version(*o) != m.ver:
		return answer{code: failed}
	}
	w.write(s, m, m.key)
	if m.marks {
		s.takeover(m.tok)
	}
	return answer{code: done, behind: m.key < s.sys.gone, o: object{gen: o.gen}}
}

// write puts a body under a name.
func (w *world) write(s *state, m *message, key uint8) {
	o := &s.obj[key]
	if w.rules.extend && o.there && o.set&^m.val.set != 0 || w.rules.lineage && o.gen != m.base {
		s.blame(lostUpdate, m.tok, 0)
	}
	*o = m.val
	o.there, o.gen = true, w.nextVersion(s)
	w.effect(s, m.tok)
}

// outside carries out an effect that no store holds: a charge, a mail.
func (w *world) outside(s *state, m *message) answer {
	if w.dedupe {
		if s.sys.keys&(1<<m.arg) != 0 {
			return answer{code: replay, o: object{set: s.mon.body}}
		}
		s.sys.keys |= 1 << m.arg
	}
	if w.rules.once && s.mon.done > 0 {
		s.blame(twice, 0, 0)
	}
	s.mon.done = 1
	s.mon.body = m.val.set
	w.effect(s, m.tok)
	return answer{code: done, o: object{set: m.val.set}}
}
