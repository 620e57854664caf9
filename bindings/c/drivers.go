//go:build cgo && !mopslock_core

package main

import (
	_ "github.com/mopslock/mopslock/host/store/azblob" // azblob://
	_ "github.com/mopslock/mopslock/host/store/gs"     // gs://
	_ "github.com/mopslock/mopslock/host/store/mem"    // mem://
	_ "github.com/mopslock/mopslock/host/store/s3"     // s3://
)
