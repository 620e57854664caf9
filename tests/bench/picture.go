package main

import "io"

// pictures are what a whole run draws, by the files' names.
var pictures = map[string]func(io.Writer, *report) error{}
