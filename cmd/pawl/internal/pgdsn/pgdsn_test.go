package pgdsn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The driver tells of every way in which it tried to connect: TLS and none are two.
func TestDriverErrorIsOneLine(t *testing.T) {
	got := OneLine(errors.New("failed to connect:\n\ta:1: refused\n\ta:1: refused\n\tb:1: refused"))
	if expected := "failed to connect: a:1: refused b:1: refused"; got != expected {
		t.Errorf("it reads %q, expected %q", got, expected)
	}
}

func TestErrorsOmitPassword(t *testing.T) {
	const password = "hu  sh/?"
	db, err := Parse("postgres://app:hu%20%20sh%2F%3F@127.0.0.1:1/shop")
	if err != nil || db.Config.ConnConfig.Password != password {
		t.Fatalf("the password is %q, %v", db.Config.ConnConfig.Password, err)
	}
	for _, form := range []string{password, "hu++sh%2F%3F", "hu%20%20sh%2F%3F"} {
		cause := fmt.Errorf("cannot use %s here", form)
		told := db.Error(cause)
		if text := told.Error(); text != "cannot use xxxxx here" || !errors.Is(told, cause) {
			t.Errorf("of %q is told %q", form, text)
		}
	}
	if db.Error(nil) != nil {
		t.Error("no error became one")
	}
}

func TestInvalidDSNIsNotEchoed(t *testing.T) {
	for _, dsn := range []string{"postgres://app:hush%zz@h/shop", "host=h port=hush", "hush"} {
		_, err := Parse(dsn)
		if !errors.Is(err, ErrDSN) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
