package flags

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// errDuration: the value of a flag is no duration; most often its unit is missing.
var errDuration = errors.New("expected a duration such as 15s")

// Duration is a duration that knows whether it was given: an absent wait
// and one of zero differ.
type Duration struct {
	Value time.Duration // the default until another one is given
	Given bool
}

// String implements pflag.Value.
func (d *Duration) String() string {
	if d.Value == 0 {
		return ""
	}
	return d.Value.String()
}

// Set implements pflag.Value.
func (d *Duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		return errDuration
	}
	d.Value, d.Given = v, true
	return nil
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }

// Choice takes one of a few words.
type Choice struct {
	Value string // the default until another one is given; "": none
	Of    []string
}

// String implements pflag.Value.
func (c *Choice) String() string { return c.Value }

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	for _, o := range c.Of {
		if s == o {
			c.Value = s
			return nil
		}
	}
	return fmt.Errorf("expected one of %s", strings.Join(c.Of, ", "))
}

// Type implements pflag.Value.
func (c *Choice) Type() string { return strings.Join(c.Of, "|") }
