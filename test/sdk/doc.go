// Package sdk holds tests of the SDK on real servers of the cell, over connections and
// stores with faults, that need what only this module may require.
package sdk
