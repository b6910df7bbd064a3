// Package protolimit decodes what servers say, for the SDK and the command line alike.
//
// It promises that the memory which a message takes is in proportion to its bytes:
// parts of two bytes each would take up to a hundred times their size.
//
// It does not bound the bytes themselves: grpc.MaxCallRecvMsgSize does.
package protolimit
