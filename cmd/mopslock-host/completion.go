package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/console"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

// completionCommand takes the place of cobra's, which has no examples and
// answers an unknown shell with its help.
func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print a shell's completion script",
		Example: `  source <(mopslock-host completion bash)
  mopslock-host completion zsh > "${fpath[1]}/_mopslock-host"
  mopslock-host completion fish > ~/.config/fish/completions/mopslock-host.fish`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("completion takes one shell: bash, zsh, fish or powershell")
			}
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return exit.Written(root.GenBashCompletionV2(a.stdout, true))
			case "zsh":
				return exit.Written(root.GenZshCompletion(a.stdout))
			case "fish":
				return exit.Written(root.GenFishCompletion(a.stdout, true))
			case "powershell":
				return exit.Written(root.GenPowerShellCompletionWithDesc(a.stdout))
			}
			return exit.Usagef("completion for %s: there is bash, zsh, fish and powershell", host.Printable(args[0]))
		},
	}
}

// completionLimit is how long a shell waits for names.
const completionLimit = 2 * time.Second

// completeName completes NAME from the store. It prints no error: the user is in
// the middle of a line.
func (a *app) completeName(cmd *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	a.console = console.New(io.Discard, nil)
	if a.storeURL == "" && a.getenv("MOPSLOCK_STORE") == "" { // completing a word must not make the default store
		dir, err := a.defaultDir()
		if _, errStat := os.Stat(dir); err != nil || errStat != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	h, err := a.open(ctx, cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.closeNow()
	defer a.close(h)
	for s, err := range h.List(ctx, word) {
		if err != nil && s.Name == "" { // the list has failed
			break
		}
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
