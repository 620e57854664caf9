// Command floor runs a command and nothing else: no Go program that runs a command can
// cost less. With the tag floor_linked the clouds' drivers are in it, unused; with
// floor_verbs it makes a run's requests to a directory around the command.
package main

import (
	"os"
	"os/exec"
)

func main() {
	after := before()
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		panic(err)
	}
	after()
}
