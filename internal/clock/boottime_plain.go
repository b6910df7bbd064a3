//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package clock

import "time"

var processStart = time.Now()

func bootCount() time.Duration { return time.Since(processStart) }
