// Package output prints the answers of pawl: a line of JSON with the names of the HTTP
// interface, a table, or text of others that is fit for a terminal.
//
// It promises that nothing that somebody else chose (a name, a label, a value) reaches
// a terminal as anything but text, and that it does not break a column or a line.
//
// It does not choose between the standard output and the standard error: its callers
// say where to print.
package output
