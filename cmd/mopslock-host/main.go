//go:build !mopslock_pages

// Command mopslock-host puts a lease that is kept in a blob store around a
// command, and shows and ends the leases in a store.
//
// It parses, prints and supervises. Package core decides what a lease is and
// when it is lost; package host does the I/O.
package main

import "os"

func main() {
	os.Exit(newApp(os.Stdin, os.Stdout, os.Stderr).execute(os.Args[1:]))
}
