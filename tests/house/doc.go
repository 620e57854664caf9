// Package house holds the rules of the house over its own source: which package
// may import which, what the core may not touch, where files lie, how long they
// may be, which words they do not use, and that the documents name what exists.
// The package has only tests; each failure names what breaks a rule, and where.
package house
