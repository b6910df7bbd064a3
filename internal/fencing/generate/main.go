package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/pawlproject/pawl/internal/fencing"
)

func main() {
	root := flag.String("root", ".", "the repository")
	flag.Parse()
	o, err := fencing.Judge()
	if err == nil {
		err = o.Write(*root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(o.Summary())
}
