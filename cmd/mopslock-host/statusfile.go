package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/console"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

// statusFile is where --status-file says who decided the exit status.
type statusFile struct{ file *os.File }

// addStatusFile adds --status-file to a command; prepare opens it.
func addStatusFile(cmd *cobra.Command) {
	cmd.Flags().String("status-file", "", "write who decided the exit status, and why, as one line of JSON")
}

// openStatusFile makes the file before all other work. A bad path is then a usage error, and not a
// surprise after the work. If we are killed, the line of an earlier run is not taken for ours.
func (a *app) openStatusFile(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("status-file")
	if flag == nil || flag.Value.String() == "" {
		return nil
	}
	file, err := os.Create(flag.Value.String())
	if err != nil {
		return exit.Usagef("--status-file: %v", err)
	}
	a.status = &statusFile{file}
	return nil
}

// write writes the line of an exit. On nil it does nothing.
func (s *statusFile) write(c *console.Console, out *exit.Error) {
	if s == nil {
		return
	}
	by := "mopslock"
	if out.ByCommand {
		by = "command"
	}
	line, err := json.Marshal(struct {
		By       string `json:"by"`
		Status   int    `json:"status"`
		Reason   string `json:"reason"`
		Launcher *int   `json:"launcher,omitempty"`
	}{by, out.Status, out.Reason, out.Launcher})
	if err == nil {
		_, err = s.file.Write(append(line, '\n'))
	}
	if closeErr := s.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		c.Printf("--status-file: %v", err)
	}
}
