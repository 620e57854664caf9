// Package tests drives the C library as its users do: it builds it, compiles C
// against the header, and runs that; and it runs the example's host beside the command. It has
// no code but tests; the C programs are in testdata, and each says at its top what it shows.
package tests
