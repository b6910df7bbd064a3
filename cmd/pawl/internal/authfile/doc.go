// Package authfile reads the file of identities and their rights.
//
//	identities:
//	  - name: billing
//	    credentials: ["sha256:…"]          # hashes; two of them while one is replaced
//	    certificates: ["dns:billing.example"]
//	    rights:
//	      - prefix: billing/
//	        allow: [read, hold]
//	    limits: {streams: 100, acquires: 1000}
//
// It promises that a file is taken as a whole or not at all: an unknown key, a repeated
// key, name, credential or certificate, a value of another type, an alias, a second
// document, and anything beyond the bounds is an error that names the line. An error
// never repeats a credential. Reading ends, whatever is at the path (infile.Read).
//
// It does not promise that the content is sensible, and it does not watch the file: the
// server reads it again when it is told to.
package authfile
