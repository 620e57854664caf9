//go:build !mopslock_nocloud

package main

// Each process that a driver's SDK is linked into initialises it: a few
// milliseconds, and tens of megabytes. More than half of that gives ?grpc=true of gs://
// its direct path; the SDK's own tag disable_grpc_modules leaves it out. mem:// is
// here since it uses the same library. A build for directories alone leaves out all:
//
//	go install -tags mopslock_nocloud github.com/mopslock/mopslock/cmd/mopslock-host@latest
import (
	_ "github.com/mopslock/mopslock/host/store/azblob" // azblob://
	_ "github.com/mopslock/mopslock/host/store/gs"     // gs://
	_ "github.com/mopslock/mopslock/host/store/mem"    // mem://, for bench
	_ "github.com/mopslock/mopslock/host/store/s3"     // s3://
)
