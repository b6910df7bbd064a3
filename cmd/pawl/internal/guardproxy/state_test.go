package guardproxy

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// A question that is given up costs SQLite its connection, and so its lock. The state file
// stays the proxy's all the same: a second proxy would not wait for what the first lets in.
func TestStateStaysTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, crashed, err := openState(t.Context(), path)
	if err != nil || crashed {
		t.Fatalf("a new file: crashed %t, %v", crashed, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var n int64
	err = s.db.QueryRowContext(ctx, `WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < 10000000000) SELECT count(*) FROM c`).Scan(&n)
	if err == nil {
		t.Fatal("the question was answered")
	}
	if _, _, err := openState(t.Context(), path); !errors.Is(err, ErrState) {
		t.Errorf("a second proxy: %v", err)
	}
	if err := s.close(true); err != nil {
		t.Error(err)
	}
	s, crashed, err = openState(t.Context(), path)
	if err != nil || crashed {
		t.Fatalf("after a clean stop: crashed %t, %v", crashed, err)
	}
	if err := s.close(false); err != nil {
		t.Error(err)
	}
	s, crashed, err = openState(t.Context(), path)
	if err != nil || !crashed {
		t.Fatalf("after another: crashed %t, %v", crashed, err)
	}
	if err := s.close(true); err != nil {
		t.Error(err)
	}
}
