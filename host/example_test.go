package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	_ "github.com/mopslock/mopslock/host/store/mem" // in a program: a package of host/store for each scheme
)

// One process at a time does the nightly report. Who stops in the middle of it is followed after a TTL.
func ExampleHost_Acquire() {
	ctx := context.Background()
	h, err := host.Open(ctx, "mem://", nil) // s3://bucket/locks, gs://, azblob://, file:///dir
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx) // releases what is still held

	lease, err := h.Acquire(ctx, "report", &host.AcquireOptions{Terms: host.Terms{TTL: core.TTLOf(10 * time.Second)}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held, fencing token", lease.FencingToken())

	_, err = h.TryAcquire(ctx, "report", nil) // another caller meanwhile
	fmt.Println("refused:", errors.Is(err, host.ErrNotAcquired))

	// lease.Context() ends with the lease: work under it, and look at Err before each step that must not be repeated.
	if lease.Err() == nil {
		fmt.Println("reporting")
	}
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("then:", lease.Err() != nil)
	// Output:
	// held, fencing token 1
	// refused: true
	// reporting
	// then: true
}

// At most two at once call a service, on all machines together.
func ExampleHost_AcquirePermit() {
	ctx := context.Background()
	h, err := host.Open(ctx, "mem://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)

	two := host.View{Capacity: 2, Width: 1}
	for range 2 {
		permit, err := h.AcquirePermit(ctx, "service", two, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer permit.Release(ctx)
	}
	_, err = h.TryAcquirePermit(ctx, "service", two, nil)
	fmt.Println("full:", errors.Is(err, host.ErrFull))
	// Output:
	// full: true
}

// A piece of work is done once for all that ask, and its result is kept beside the lease.
func ExampleHost_Invoke() {
	ctx := context.Background()
	h, err := host.Open(ctx, "mem://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)

	train := func(_ context.Context, work *host.Work) error {
		fmt.Println("training")
		work.Return(host.Bytes([]byte("weights")))
		return nil
	}
	for range 2 { // here, on another machine, or next week
		result, err := h.Invoke(ctx, "model", train, nil)
		if err != nil {
			log.Fatal(err)
		}
		weights, err := result.Bytes(ctx, 1<<20)
		fmt.Println(string(weights), err)
	}
	// Output:
	// training
	// weights <nil>
	// weights <nil>
}
