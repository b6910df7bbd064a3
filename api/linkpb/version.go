package linkpb

// Version of the link protocol. A client and a server of neighbouring versions talk to
// each other.
const Version = 1
