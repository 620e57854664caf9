package main

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/wasm"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Example: `  mopslock-host version --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("version takes no argument")
			}
			return a.version()
		},
	}
}

// version prints from which sources this program was built.
func (a *app) version() error {
	info, _ := debug.ReadBuildInfo()
	commit := commitOf(info)
	guest := fmt.Sprintf("%x", sha256.Sum256(wasm.Module()))
	protocols := []string{core.ProtocolStrict.String(), core.ProtocolBridge.String(), core.ProtocolLastWriter.String()}
	if a.json {
		return a.report(struct {
			Version   string   `json:"version"`
			Commit    string   `json:"commit"` // "" where the build did not know it
			Go        string   `json:"go"`
			Guest     string   `json:"guest_sha256"`
			Protocols []string `json:"protocols"`
		}{core.Version, commit, runtime.Version(), guest, protocols})
	}
	if commit != "" {
		commit = "commit " + commit + ", "
	}
	return a.print(fmt.Sprintf("mopslock-host %s (%s%s, guest %s, protocols %s)\n", core.Version, commit, runtime.Version(), guest, strings.Join(protocols, ", ")))
}

// commitOf returns the commit that a build's information names, which may be nil, or "".
func commitOf(info *debug.BuildInfo) (commit string) {
	if info == nil {
		return ""
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
	if commit == "" {
		return ""
	}
	return commit + dirty
}
