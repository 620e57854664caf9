package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mopslock/mopslock/host/store"
)

func listOrderPages(t *testing.T, s store.Store) {
	all := []string{
		"a", "a-b", "a-b/c", "a.b", "a/b-c/d", "a/b/c", "a/b/d/e", "a/b0", "a0/b", "aa", "b/~", "b/é", "z",
	}
	all[0] = "a+" // "a" and "a/b" cannot both be on a local directory
	slices.Sort(all)
	all = slices.DeleteFunc(all, func(k string) bool { return k == "a-b" })
	for i, key := range all {
		put(t, s, all[(i*5)%len(all)], key)
	}
	for _, limit := range []int{1, 2, 3, len(all) - 1, len(all), len(all) + 1, 0, store.MaxPage, -1, store.MaxPage + 1} {
		wantKeys(t, listAll(t, s, "", limit), all)
	}
	for i := range all { // after need not be the key of an object
		for _, after := range []string{all[i], all[i] + "!"} {
			page, _, err := s.List(t.Context(), "", after, 0)
			if err != nil {
				t.Fatal(err)
			}
			at, _ := slices.BinarySearch(all, after+"\x00")
			wantKeys(t, page, all[at:])
		}
	}
	page, more, err := s.List(t.Context(), "", "zz", 1)
	if err != nil || more || len(page) != 0 {
		t.Fatalf("beyond the end: %v, %v, %v", page, more, err)
	}
}

func listPrefix(t *testing.T, s store.Store) {
	for _, key := range []string{"ab/1", "ab/2", "abc", "abd/x", "b/ab"} {
		put(t, s, key, key)
	}
	for prefix, want := range map[string][]string{
		"":       {"ab/1", "ab/2", "abc", "abd/x", "b/ab"},
		"a":      {"ab/1", "ab/2", "abc", "abd/x"},
		"ab":     {"ab/1", "ab/2", "abc", "abd/x"},
		"ab/":    {"ab/1", "ab/2"},
		"ab/2":   {"ab/2"},
		"ab/2/":  {},
		"abd":    {"abd/x"},
		"abd/":   {"abd/x"},
		"abd/x":  {"abd/x"},
		"abd/xx": {},
		"c":      {},
		"c/d/e":  {},
	} {
		for _, limit := range []int{0, 1, 2} {
			wantKeys(t, listAll(t, s, prefix, limit), want)
		}
	}
	page, more, err := s.List(t.Context(), "ab/", "ab/1", 5)
	if err != nil || more {
		t.Fatal(more, err)
	}
	wantKeys(t, page, []string{"ab/2"})
}

func listFresh(t *testing.T, s store.Store) {
	for i := range 20 {
		key := fmt.Sprintf("fresh/%02d/v", i)
		put(t, s, key, "x")
		wantKeys(t, listAll(t, s, "fresh/", 0), []string{key})
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		wantKeys(t, listAll(t, s, "fresh/", 0), []string{})
	}
}
