package exit

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
)

// No refusal is taken for success, not even one for a reason that only a newer
// server has.
func TestEveryRefusalExitsNonZero(t *testing.T) {
	refusal := func(r linkpb.Reason) error {
		st, err := status.New(codes.Unknown, "no").WithDetails(&linkpb.RefusedDetail{Refused: &linkpb.Refused{Reason: r, Message: "no"}})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for n, name := range linkpb.Reason_name {
		if _, known := reasonCodes[linkpb.Reason(n)]; !known {
			t.Errorf("%s has no exit code", name)
		}
		if code, _ := Of(refusal(linkpb.Reason(n))); code == 0 {
			t.Errorf("%s ends with 0", name)
		}
	}
	if code, text := Of(refusal(99)); code != CodeOther || text != "no" {
		t.Errorf("an unknown reason ends with %d (%s)", code, text)
	}
}
