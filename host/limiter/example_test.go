package limiter_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mopslock/mopslock/host/limiter"
)

// At most 3 calls of a back-end at once, or 6 where a caller knows of two of them.
func ExampleLimiter() {
	calls := limiter.New(nil)
	one := limiter.View{Capacity: 3, Width: 1}
	two := limiter.View{Capacity: 3, Width: 2}

	// What serves one request: all that it holds is given back when ctx ends.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request := calls.Owner(ctx)
	for range 4 {
		permit, err := request.TryAcquire("backend", one, 1)
		if errors.Is(err, limiter.ErrFull) {
			fmt.Println(err)
			break
		}
		fmt.Println("call number", permit.Total())
	}

	// Another one knows of a second back-end already.
	permit, err := calls.TryAcquire(context.Background(), "backend", two, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer permit.Release()
	fmt.Println("call number", permit.Total())

	cancel()
	request.Close() // only to be sure that the end of ctx has come by
	fmt.Println(calls.Held("backend"), "held")

	// Output:
	// call number 1
	// call number 2
	// call number 3
	// mopslock: "backend" is full: 3/3 held
	// call number 4
	// 1 held
}

// Acquire waits; its permit is given back at the latest when ctx ends.
func ExampleLimiter_Acquire() {
	calls := limiter.New(&limiter.Options{FIFO: true})
	work := func(ctx context.Context) error {
		permit, err := calls.Acquire(ctx, "disk", limiter.View{Capacity: 2, Width: 1}, 1)
		if err != nil {
			return err
		}
		defer permit.Release()
		fmt.Println("reading")
		return nil
	}
	fmt.Println(work(context.Background()))
	// Output:
	// reading
	// <nil>
}

// A hot path resolves its names once.
func ExampleSlot() {
	calls := limiter.New(nil)
	process := calls.Owner(context.Background())
	defer process.Close()
	disk := process.On("disk")
	if total, ok := disk.TryAcquire(100, 10, 1); ok {
		fmt.Println(total, "held")
		disk.Release(1)
	}
	// Output: 1 held
}
