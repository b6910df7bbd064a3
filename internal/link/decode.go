package link

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	_ "google.golang.org/grpc/encoding/proto" // the codec behind ours
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/service"
)

// Undecoded is a message as it came. gRPC decodes whatever has arrived, as many
// messages at once as there are streams, and a message can be fifty times as large in
// memory as on the wire. So a large one is decoded by us, in its identity's turn.
type Undecoded struct{ bytes mem.BufferSlice }

// Peek decodes it into m for an interceptor.
func (u *Undecoded) Peek(m proto.Message) error { return proto.Unmarshal(u.bytes.Materialize(), m) }

// codec is gRPC's own, which leaves an Undecoded as it is.
type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if u, ok := v.(*Undecoded); ok {
		data.Ref()
		u.bytes = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// undecodedMessages makes a gRPC server take them.
func undecodedMessages() grpc.ServerOption {
	return grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")})
}

// uncompressed makes a gRPC server refuse compressed messages. gzip is registered
// because another package of the process imports it, and some 300 bytes of it expand to
// a message of MessageMax. gRPC would expand it before the identity's turn to decode.
func uncompressed() grpc.ServerOption {
	//lint:ignore SA1019 encoding.RegisterCompressor would be for the whole process
	return grpc.RPCDecompressor(refusing{})
}

// refusing is a grpc.Decompressor.
type refusing struct{}

func (refusing) Do(io.Reader) ([]byte, error) {
	return nil, errors.New("the link takes no compressed messages")
}

func (refusing) Type() string { return gzip.Name }

// decode makes of what a caller sent a message, and lets go of it.
func (s *Server) decode(ctx context.Context, c *access.Caller, u *Undecoded, m proto.Message) error {
	defer u.bytes.Free()
	if u.bytes.Len() > access.SmallMax {
		done, err := s.o.Gate.Decoding(ctx, c)
		if err == nil {
			defer done() // also of a caller that has gone meanwhile
		}
		switch {
		case ctx.Err() != nil:
			return status.FromContextError(ctx.Err()).Err()
		case err != nil:
			return s.evicted(err)
		}
	}
	b := u.bytes.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	if err := proto.Unmarshal(b.ReadOnlyData(), m); err != nil {
		return status.Error(codes.InvalidArgument, fmt.Sprintf("what came is no %s of the link protocol", m.ProtoReflect().Descriptor().Name()))
	}
	return nil
}

// receiveInto waits for a stream's next message.
func (d *streamCaller) receiveInto(st grpc.ServerStream, m *linkpb.ClientMessage) error {
	var u Undecoded
	if err := st.RecvMsg(&u); err != nil {
		return err
	}
	return d.server.decode(st.Context(), d.caller, &u, m)
}

// serviceDesc is the link's, with calls that are decoded by us.
func (s *Server) serviceDesc() *grpc.ServiceDesc {
	d := linkpb.Link_ServiceDesc
	d.Methods = make([]grpc.MethodDesc, len(linkpb.Link_ServiceDesc.Methods))
	for k, m := range linkpb.Link_ServiceDesc.Methods {
		handler := m.Handler
		m.Handler = func(srv any, ctx context.Context, received func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
			return handler(srv, ctx, func(into any) error { return s.receiveCall(ctx, received, into.(proto.Message)) }, between)
		}
		d.Methods[k] = m
	}
	return &d
}

func (s *Server) receiveCall(ctx context.Context, received func(any) error, into proto.Message) error {
	var u Undecoded
	if err := received(&u); err != nil {
		return err
	}
	// The bound on calls has let it in, where there is one.
	c, err := s.o.Gate.From(s.present(ctx, metadata.ValueFromIncomingContext(ctx, authorizationKey)))
	if err != nil {
		u.bytes.Free()
		return s.failed(service.Unauthenticated(err))
	}
	return s.decode(ctx, c, &u, into)
}
