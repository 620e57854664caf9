package core

// Version is that of the release: of the module, the command, the C library and the Python packages.
const Version = "0.1.0"
