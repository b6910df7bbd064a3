package testwait

import (
	"flag"
	"os"
	"strconv"
)

// RepsEnv sets the default of -reps, for runs over packages of which not every
// one knows the flag.
const RepsEnv = "PAWL_REPS"

const repsDefault = 3

var reps = flag.Int("reps", repsFromEnv(), "how often a repeating test repeats at most; 0: its full count")

// Reps is how often to repeat what is to be repeated full times: at most -reps
// times, 3 by default, or full times under -reps=0.
func Reps(full int) int {
	if *reps <= 0 {
		return full
	}
	return min(*reps, full)
}

func repsFromEnv() int {
	text, ok := os.LookupEnv(RepsEnv)
	if !ok {
		return repsDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(RepsEnv + " is no number: " + text)
	}
	return n
}
