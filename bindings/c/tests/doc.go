// Package tests drives the C libraries as their users do: it builds them, compiles
// C against the header, and runs that. It has no code but tests; the C programs are
// in testdata, and each says at its top what it shows.
package tests
