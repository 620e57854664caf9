package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Example: `  mopslock-host version --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("version takes no argument")
			}
			version := "devel"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
				version = info.Main.Version
			}
			strict, lastwriter := core.ProtocolStrict.String(), core.ProtocolLastWriter.String()
			if a.json {
				return a.report(struct {
					Version   string   `json:"version"`
					Go        string   `json:"go"`
					Protocols []string `json:"protocols"`
				}{version, runtime.Version(), []string{strict, lastwriter}})
			}
			return a.print(fmt.Sprintf("mopslock-host %s (%s, protocols %s and %s)\n", version, runtime.Version(), strict, lastwriter))
		},
	}
}

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
				return usagef("completion takes one shell: bash, zsh, fish or powershell")
			}
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return written(root.GenBashCompletionV2(a.stdout, true))
			case "zsh":
				return written(root.GenZshCompletion(a.stdout))
			case "fish":
				return written(root.GenFishCompletion(a.stdout, true))
			case "powershell":
				return written(root.GenPowerShellCompletionWithDesc(a.stdout))
			}
			return usagef("completion for %s: there is bash, zsh, fish and powershell", host.Printable(args[0]))
		},
	}
}

// helpCommand takes the place of cobra's, whose status is 0 for what is unknown.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "show the help of a command",
		Example: `  mopslock-host help run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, _, err := cmd.Root().Find(args)
			if err != nil || about == nil || len(args) > 0 && about == cmd.Root() {
				return unknownCommand(cmd.Root(), args)
			}
			return about.Help()
		},
	}
}
