package infile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// BytesMax bounds a file of certificates, or of a key, in bytes.
const BytesMax = 8 << 20

// arriveMax bounds the wait for a pipe.
const arriveMax = 10 * time.Second

// Read reads a file that has most bytes or fewer; now is the wall time. It always returns: a
// pipe is read until its end, or for ten seconds. An empty pipe, a device, a folder or
// a socket is an error.
func Read(path string, most int64, now time.Time) (raw []byte, st fs.FileInfo, err error) {
	// Opened so, a pipe to which nobody writes has ended instead of being waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if kind := st.Mode().Type(); kind != 0 && kind != fs.ModeNamedPipe {
		return nil, nil, fmt.Errorf("%s: neither a file nor a pipe", path)
	}
	_ = f.SetReadDeadline(now.Add(arriveMax)) // what is not a pipe has no deadline and needs none
	raw, err = io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil, fmt.Errorf("%s: a pipe that did not end within %v", path, arriveMax)
	case err != nil:
		return nil, nil, err
	case len(raw) == 0 && st.Mode().Type() != 0:
		return nil, nil, fmt.Errorf("%s: a pipe that nobody has written to", path)
	case int64(len(raw)) > most:
		return nil, nil, fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return raw, st, nil
}
