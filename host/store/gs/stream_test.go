package gs

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

func TestTransfers(t *testing.T) {
	chunk := func(r *http.Request) bool { return r.URL.Path == "/session" }
	final := func(r *http.Request) bool {
		return chunk(r) && !strings.HasSuffix(r.Header.Get("Content-Range"), "/*")
	}
	storetest.RunTransfers(t, storetest.Transfers{
		URL: func(hostPort string) string {
			t.Setenv("STORAGE_EMULATOR_HOST", hostPort)
			return "gs://bucket/locks"
		},
		Makes: func(r *http.Request) bool {
			return r.URL.Query().Get("uploadType") == "multipart" || final(r)
		},
		Answer: func(w http.ResponseWriter, r *http.Request, _ int64) {
			switch {
			case r.URL.Query().Get("uploadType") == "resumable":
				w.Header().Set("Location", "http://"+r.Host+"/session")
			case chunk(r) && !final(r):
				w.Header().Set("X-Http-Status-Code-Override", "308")
			default:
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"name":"locks/k","bucket":"bucket"}`)
			}
		},
	})
}

func TestParts(t *testing.T) {
	for size, want := range map[int64]int{
		-1: 8 << 20, 0: 256 << 10, 1: 256 << 10, 256<<10 - 1: 256 << 10, 256 << 10: 512 << 10,
		8<<20 - 1: 8 << 20, 8 << 20: 8 << 20, 5 << 40: 8 << 20,
	} {
		if part, workers := parts(size); part != want || workers != 1 || part*workers > store.MaxBuffer {
			t.Errorf("%d: %d by %d", size, part, workers)
		}
	}
}
