package base

import "github.com/mopslock/mopslock/core"

// Snapshot is what the client's own state is written into.
type Snapshot = core.StateWriter
