// Package house holds the rules of the house over its own source: who may
// import whom, what the core may not touch, what lies where, how long things
// may be, and that what the documents show works. There is no code here but
// tests; each rule names what breaks it and where.
package house
