package runner

import (
	"context"
	"os"
	"sync"
	"time"
)

// words is where a run says what it has to say: never on the standard output,
// which is the command's, and never so that it waits for a reader, who may be a
// stopped terminal.
type words struct {
	lines chan string
	done  chan struct{}

	mu    sync.Mutex
	ended bool
}

func speak(f *os.File) *words {
	w := &words{lines: make(chan string, 64), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for line := range w.lines {
			_, _ = f.WriteString(line + "\n") // nobody else to tell
		}
	}()
	return w
}

func (w *words) say(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	select {
	case w.lines <- line:
	default:
	}
}

// end waits a moment for what was said to be written.
func (w *words) end() {
	w.mu.Lock()
	w.ended = true
	close(w.lines)
	w.mu.Unlock()
	late, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	select {
	case <-w.done:
	case <-late.Done():
	}
}
