//go:build floor_linked

package main

import (
	_ "github.com/mopslock/mopslock/host/store/azblob"
	_ "github.com/mopslock/mopslock/host/store/gs"
	_ "github.com/mopslock/mopslock/host/store/s3"
)
