package main

import (
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
)

// report prints a value as one line of JSON.
func (a *app) report(v any) error {
	line, err := report.JSON(v)
	if err != nil {
		return err
	}
	return a.print(line)
}

// print writes a text to stdout.
func (a *app) print(text string) error {
	_, err := a.stdout.Write([]byte(text))
	return exit.Written(err)
}
