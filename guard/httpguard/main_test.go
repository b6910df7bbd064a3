package httpguard_test

import (
	"io"
	"log"
)

// quiet takes what a proxy says of its upstream.
var quiet = log.New(io.Discard, "", 0)
