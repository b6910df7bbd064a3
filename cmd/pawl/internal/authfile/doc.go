// Package authfile reads the file that says who may do what.
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
// It promises that a file is understood wholly or not at all: an unknown key, a
// key, name or proof that is there twice, a value of another type, an alias, a
// second document, and anything beyond the bounds is an error that names the line.
// What it says never repeats a credential. Reading comes to an end, whatever stands
// at the path (infile.Read).
//
// It does not promise that what the file says is wise, and it does not watch it:
// the server reads it again when it is told to.
package authfile
