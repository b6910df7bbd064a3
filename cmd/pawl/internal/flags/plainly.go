package flags

import (
	"errors"
	"strconv"
	"strings"
)

// Plainly says what is wrong with a flag's value in words that are not Go's.
func Plainly(err error) string {
	var n *strconv.NumError
	if !errors.As(err, &n) {
		return err.Error()
	}
	expected := "expected a whole number"
	switch {
	case n.Func == "ParseBool":
		expected = "expected true or false"
	case errors.Is(n, strconv.ErrRange):
		expected += ", and not such a large one"
	}
	return strings.TrimSuffix(err.Error(), n.Error()) + expected
}
