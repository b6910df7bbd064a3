package link

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Whatever a client says, others are served on.
func FuzzClientMessages(f *testing.F) {
	for _, m := range []*linkpb.ClientMessage{
		{FinishedBelow: 1, Renewal: 1, Requests: acquires(3, func(int) string { return "x" })},
		{Requests: []*linkpb.Request{
			{Number: 1, What: &linkpb.Request_Release{Release: &linkpb.Release{Token: 1 << 63}}},
			{Number: 2, What: &linkpb.Request_Check{Check: &linkpb.Check{}}},
			{Number: 3, What: &linkpb.Request_Cancel{Cancel: &linkpb.Cancel{Number: 9}}},
			{Number: 1 << 63},
		}},
		{Observe: []string{"x", ""}, Unobserve: []string{"y"}},
		{Renewal: 2, TtlNano: int64(time.Minute)},
		{Renewal: 2, TtlNano: -1},
		{Close: true},
		{Hello: hello()},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	c := serve(f, false)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m linkpb.ClientMessage
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		st := attach(t, c, &linkpb.ClientMessage{Hello: hello()})
		if recv(t, st).Welcome == nil {
			t.Fatal("not welcome")
		}
		_ = st.Send(&m)
		_ = st.Send(&linkpb.ClientMessage{Close: true})
		for {
			if _, err := st.Recv(); err != nil {
				break
			}
		}
		if _, err := c.Status(context.Background(), &linkpb.StatusRequest{}); err != nil {
			t.Error(err)
		}
	})
}
