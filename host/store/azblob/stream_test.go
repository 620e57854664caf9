package azblob

import (
	"net/http"
	"testing"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

func TestTransfers(t *testing.T) {
	storetest.RunTransfers(t, storetest.Transfers{
		URL:    at,
		Makes:  func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Get("comp") != "block" },
		Answer: func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusCreated) },
	})
}

func TestParts(t *testing.T) {
	for _, size := range []int64{-1, 0, 1, smallBlock * maxBlocks, smallBlock*maxBlocks + 1, largeBlock * maxBlocks} {
		part, workers := parts(size)
		if part*workers > store.MaxBuffer || int64(part)*maxBlocks < size {
			t.Errorf("%d: %d by %d", size, part, workers)
		}
		if size < 0 && part != largeBlock {
			t.Errorf("of unknown size: %d", part)
		}
	}
}
