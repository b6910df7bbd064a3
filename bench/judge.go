package main

import (
	"fmt"
	"sync"
)

// judge looks for wrong grants of one server: two holders of a name, or a token
// that does not rise. The nil judge sees nothing.
type judge struct {
	mu    sync.Mutex
	seats map[string]*seat
}

type seat struct {
	taken  bool
	holder int
	token  uint64
}

// granted notes a grant; an error says what is wrong with it.
func (j *judge) granted(h held, caller int) error {
	if j == nil || h.name == "" {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.seats[h.name]
	if s == nil {
		if j.seats == nil {
			j.seats = map[string]*seat{}
		}
		s = &seat{}
		j.seats[h.name] = s
	}
	if s.taken {
		return fmt.Errorf("wrong grant: %s went to caller %d with token %d while caller %d held it with token %d",
			h.name, caller, h.token, s.holder, s.token)
	}
	if h.token != 0 && h.token <= s.token {
		return fmt.Errorf("wrong grant: the token of %s went from %d to %d", h.name, s.token, h.token)
	}
	s.taken, s.holder, s.token = true, caller, h.token
	return nil
}

// released is told before the name is given back.
func (j *judge) released(h held) {
	if j == nil || h.name == "" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seats[h.name].taken = false
}
