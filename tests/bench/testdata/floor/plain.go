//go:build !floor_verbs

package main

func before() (after func()) { return func() {} }
