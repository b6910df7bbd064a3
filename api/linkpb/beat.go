package linkpb

import "time"

// BeatGap is how far apart the beats of a server are, of which
// ServerMessage.beat_nano tells.
const BeatGap = 50 * time.Millisecond
