// Command mopslock-host puts a lease that is kept in a blob store around a
// command, and shows and mends the leases in a store.
//
// It parses, prints and supervises; what a lease is and when it is lost is
// decided by package core and brought about by package host.
package main

import "os"

func main() {
	os.Exit(newApp(os.Stdin, os.Stdout, os.Stderr).execute(os.Args[1:]))
}
