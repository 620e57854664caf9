package buckets_test

import (
	"fmt"

	"github.com/mopslock/mopslock/core/buckets"
)

// Callers that know of different limits share one count.
func ExampleBuckets() {
	var service buckets.Buckets[string]
	held, reason := service.Acquire(2, 1, 2, "a") // 2 in 1 bucket, and takes both
	fmt.Println(held, reason)
	held, reason = service.Acquire(2, 1, 1, "b")
	fmt.Println(held, reason)
	held, reason = service.Acquire(2, 2, 1, "b") // b knows of a second bucket by now
	fmt.Println(held, reason)
	service.Down("a") // it has ended, and all that it held is free
	fmt.Println(service.Held(), service.HeldBy("b"))
	// Output:
	// 2 none
	// 2 full
	// 3 none
	// 1 1
}
