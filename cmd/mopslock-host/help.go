package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

func unknownCommand(root *cobra.Command, word string) error {
	text := "there is no command " + host.Printable(word)
	if like := root.SuggestionsFor(word); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return exit.Usagef("%s; see mopslock-host --help", text)
}

// helpCommand takes the place of cobra's, whose status is 0 for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "show the help of a command",
		Example: `  mopslock-host help run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, _, err := cmd.Root().Find(args)
			if len(args) > 0 && (err != nil || about == nil || about == cmd.Root()) {
				return unknownCommand(cmd.Root(), args[0])
			}
			return about.Help()
		},
	}
}
