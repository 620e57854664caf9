//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
)

// python is a script of this directory that prints a figure in nanoseconds.
type python struct {
	script string
	needs  []string // modules without which there is no figure
	args   []string
}

// Places that are known only when everything is built, in a python's args.
const (
	libraryPath = "LIBRARY"
	libraryDir  = "LIBRARIES"
	vectorPath  = "VECTOR"
)

func stepCtypes(loader string) python {
	return python{script: "step_ctypes.py", args: []string{loader, libraryPath, vectorPath}}
}

// packaged is a script that uses the package.
func packaged(script string, args ...string) python {
	return python{script: script, needs: []string{"msgpack"}, args: args}
}

// mops is a script that uses mops.
func mops(script string, args ...string) python {
	return python{script: script, needs: []string{"msgpack", "thds.mops"}, args: args}
}

var stepCffi = python{
	script: "step_cffi.py",
	needs:  []string{"cffi", "setuptools"},
	args:   []string{"bindings/c", libraryDir, vectorPath},
}

// missingError names something that the machine lacks and the bench does without.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what + " is not installed" }

func (p python) measure(w *workshop) (figure, error) {
	interpreter := projectPython()
	for _, module := range p.needs {
		if err := w.build("import "+module, interpreter, "-c", "import "+module); err != nil {
			return figure{}, &missingError{module}
		}
	}
	sources, err := filepath.Abs("bindings/python/src")
	command, errCommand := w.program(builtHost)
	if err = errors.Join(err, errCommand, w.library()); err != nil {
		return figure{}, err
	}
	places := map[string]string{libraryPath: w.path("libmopslock-core.so"), libraryDir: w.dir, vectorPath: w.path("renewals.vec")}
	args := []string{"tests/bench/" + p.script}
	for _, arg := range p.args {
		if place, ok := places[arg]; ok {
			arg = place
		}
		args = append(args, arg)
	}
	cmd, cancel := w.command(interpreter, args...)
	defer cancel()
	cmd.Env = append(cmd.Environ(), "PYTHONPATH="+sources, "MOPSLOCK_LIB="+w.dir, "MOPSLOCK_KEEPER="+command)
	return w.number(cmd)
}

// projectPython is the Python in which `make test` has installed what the tests
// need, if it has, and otherwise the system's.
func projectPython() string {
	const ours = "bin/python-venv/bin/python"
	if _, err := os.Stat(ours); err == nil {
		return ours
	}
	return "python3"
}
