// Package testscript runs scripts: files that say what is put into something and what
// comes of it.
//
//	# A comment.
//	= a name      begins another script of the file, a test of its own
//	> input       is one command
//	< output      is one line of what came of it
//
// A command's output is compared whole. With the flag -rewrite it is written into the
// file instead. The commands are described where they are carried out.
package testscript
