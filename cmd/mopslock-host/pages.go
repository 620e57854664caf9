//go:build mopslock_pages

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"

	"github.com/mopslock/mopslock/core"
)

// With the tag mopslock_pages this program writes its man pages and completions into the
// directory that it is given, for make release. Without it neither it nor its library is in
// the command. SOURCE_DATE_EPOCH is the date that the pages bear.
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pages DIRECTORY")
		os.Exit(64)
	}
	if err := writePages(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writePages(dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, dir := range []string{man, completions} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	root := newApp(os.Stdin, os.Stdout, os.Stderr).root()
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "mopslock " + core.Version, Manual: "mopslock"}, man); err != nil {
		return err
	}
	for file, write := range map[string]func(string) error{
		"mopslock-host.bash": func(name string) error { return root.GenBashCompletionFileV2(name, true) },
		"_mopslock-host":     root.GenZshCompletionFile,
		"mopslock-host.fish": func(name string) error { return root.GenFishCompletionFile(name, true) },
		"mopslock-host.ps1":  root.GenPowerShellCompletionFileWithDesc,
	} {
		if err := write(filepath.Join(completions, file)); err != nil {
			return err
		}
	}
	return nil
}
