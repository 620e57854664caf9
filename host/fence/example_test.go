package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/store/mem"
)

// A holder that was paused writes after its successor has, and is refused.
func ExampleObject_Write() {
	ctx := context.Background()
	object, err := fence.Open(mem.Open(), "state")
	if err != nil {
		log.Fatal(err)
	}
	paused := fence.Tenure{Token: 5, Holder: "a"} // of a lease: fence.Of(lease)
	next := fence.Tenure{Token: 6, Holder: "b"}

	if _, err := object.Write(ctx, paused, []byte("one")); err != nil {
		log.Fatal(err)
	}
	if _, err := object.Write(ctx, next, []byte("two")); err != nil {
		log.Fatal(err)
	}
	_, err = object.Write(ctx, paused, []byte("too late"))
	fmt.Println("stale:", errors.Is(err, fence.ErrStale))

	newest, err := object.Read(ctx)
	fmt.Println(string(newest.Body), newest.Token, err)
	// Output:
	// stale: true
	// two 6 <nil>
}
