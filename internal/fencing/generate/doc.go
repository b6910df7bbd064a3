// Command generate runs the checker of package fencing and writes what it finds: the table
// that "pawl explain" prints, the page docs/fencing-without-a-fence.md between its marks,
// and the drawings below docs/fencing. Package fencing's `go generate` calls it; it
// promises nothing beyond that package's Judge, and needs a folder of the repository.
package main
