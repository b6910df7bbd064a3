// Package hook lets pawltest hand the SDK its clock and its network, and lets
// "pawl trace" ask it where its requests have been.
//
// They travel in the context given to pawl.Dial, so the SDK's interface has no
// word about them, and nothing outside this module can set them. The package
// promises nothing else and decides nothing.
package hook
