package main

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"runtime/debug"

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

// builtFrom returns the version and the commit of a build's information, which may be nil.
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
