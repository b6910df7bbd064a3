package kvlog

import (
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// shareMax bounds what one look adds to the time a standby has waited: a
// standby that was stopped for an hour has not watched for an hour.
const shareMax = 250 * time.Millisecond

// paceMax bounds the time between two looks; below shareMax, so that a standby
// that runs well loses nothing.
const paceMax = 100 * time.Millisecond

// patience counts usable time since a sign of life changed last.
type patience struct {
	tenure, beat int64
	last         clock.Reading
	waited       time.Duration
	begun        bool
}

// observe takes in what an answer showed; now was read after it arrived. It
// returns the time watched without a change.
func (p *patience) observe(now clock.Reading, tenure, beat int64) time.Duration {
	if !p.begun || tenure != p.tenure || beat != p.beat {
		*p = patience{tenure: tenure, beat: beat, last: now, begun: true}
		return 0
	}
	p.waited += min(now.Shorter(p.last), shareMax)
	p.last = now
	return p.waited
}

// miss takes in a look that was not answered: its share does not count.
func (p *patience) miss(now clock.Reading) { p.last = now }
