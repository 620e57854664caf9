//go:build !mopslock_nocloud

package main

// A driver's SDK is initialised by each process that it is linked into: a few
// milliseconds, and tens of megabytes. More than half of that is for ?grpc=true of gs://
// to have a direct path, and goes with the SDK's own tag disable_grpc_modules. mem:// is
// here since it stands on the same library. Who leases in directories alone leaves out all:
//
//	go install -tags mopslock_nocloud github.com/mopslock/mopslock/cmd/mopslock-host@latest
import (
	_ "github.com/mopslock/mopslock/host/store/azblob" // azblob://
	_ "github.com/mopslock/mopslock/host/store/gs"     // gs://
	_ "github.com/mopslock/mopslock/host/store/mem"    // mem://, for bench
	_ "github.com/mopslock/mopslock/host/store/s3"     // s3://
)
