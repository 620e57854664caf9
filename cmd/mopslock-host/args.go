package main

import (
	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

// nameArg returns the one NAME of a command.
func nameArg(cmd *cobra.Command, args []string) (string, error) {
	if len(args) != 1 || cmd.ArgsLenAtDash() > 0 { // `-- -name` is a NAME
		return "", exit.Usagef("%s takes one NAME; see %s --help", cmd.Name(), cmd.CommandPath())
	}
	return args[0], nil
}

// commandArgs splits `… -- CMD ARG…`; before is how many words come before the --.
func commandArgs(cmd *cobra.Command, args []string, before int) ([]string, []string, error) {
	dash := cmd.ArgsLenAtDash()
	if dash != before || len(args) <= dash {
		return nil, nil, exit.Usagef("usage: %s; the command comes after --", cmd.UseLine())
	}
	return args[:dash], args[dash:], nil
}
