package sqlguard

import "slices"

// Dialect is how one kind of database speaks.
type Dialect struct {
	ddl []string
	// enter takes resource, cell and token, and locks the resource's row until
	// the transaction ends. It returns a row when the fence passes and has become
	// the mark, and none when it is refused.
	enter string
	// seen takes a resource and returns its cell and token.
	seen string
	// step has the parameters next offset, resource, key and previous offset. start has
	// resource, key and offset, and inserts a missing row. Each returns a row when it
	// changed one. offset has resource and key.
	step, start, offset string
	// failure says what a driver's error is.
	failure func(error) failure
}

// failure is what can be known from a driver's error.
type failure uint8

const (
	failedOtherwise failure = iota
	// failedBusy: another transaction is in the way; this one did nothing.
	failedBusy
	// failedCheck: a constraint of the schema refused it; nothing was done.
	failedCheck
	// failedNoTable: the guard's table does not exist.
	failedNoTable
)

// DDL returns the statements that make the guard's tables, for those who keep
// their schema elsewhere. Each may be run again at any time.
func (d Dialect) DDL() []string { return slices.Clone(d.ddl) }
