//go:build !unix

package main

import (
	"errors"
	"os/exec"
)

var errNoGroups = errors.New("this example needs process groups, as Unix systems have them")

func detach(*exec.Cmd) {}

func ownGroup(*exec.Cmd) error { return errNoGroups }

func killGroup(int) error { return errNoGroups }
