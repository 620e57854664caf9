package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/wasm"
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
			return a.version()
		},
	}
}

// version prints what this programme was made of.
func (a *app) version() error {
	info, _ := debug.ReadBuildInfo()
	version, commit := builtFrom(info)
	guest := fmt.Sprintf("%x", sha256.Sum256(wasm.Module()))
	strict, lastwriter := core.ProtocolStrict.String(), core.ProtocolLastWriter.String()
	if a.json {
		return a.report(struct {
			Version   string   `json:"version"`
			Commit    string   `json:"commit"` // "" where the build did not know it
			Go        string   `json:"go"`
			Guest     string   `json:"guest_sha256"`
			Protocols []string `json:"protocols"`
		}{version, commit, runtime.Version(), guest, []string{strict, lastwriter}})
	}
	if commit != "" {
		commit = "commit " + commit + ", "
	}
	return a.print(fmt.Sprintf("mopslock-host %s (%s%s, guest %s, protocols %s and %s)\n", version, commit, runtime.Version(), guest, strict, lastwriter))
}

// builtFrom is the version and the commit in a build's information, which may be nil.
func builtFrom(info *debug.BuildInfo) (version, commit string) {
	version = "devel"
	if info == nil {
		return version, ""
	}
	if known := info.Main.Version; known != "" && known != "(devel)" {
		version = known
	}
	dirty := ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit != "" {
		commit += dirty
	}
	return version, commit
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

// completionLimit is how long a shell waits for names.
const completionLimit = 2 * time.Second

// completeName completes NAME from the store. It says nothing of what fails: its
// reader is in the middle of a line.
func (a *app) completeName(cmd *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	a.ui = newUI(io.Discard)
	if a.storeURL == "" && a.getenv("MOPSLOCK_STORE") == "" { // the default store: to complete a word must not make it
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

// helpCommand takes the place of cobra's, whose status is 0 for what is unknown.
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
