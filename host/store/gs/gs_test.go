package gs

import (
	"errors"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// TestServer runs the conformance suite on a server that somebody started, and
// that STORAGE_EMULATOR_HOST names.
func TestServer(t *testing.T) { storetest.RunURL(t, "MOPSLOCK_TEST_GS") }

func TestReplies(t *testing.T) {
	at := func(hostPort string) string {
		t.Setenv("STORAGE_EMULATOR_HOST", hostPort)
		return "gs://bucket/locks"
	}
	json := map[string]string{"Content-Type": "application/json"}
	body := func(code, reason, message string) string {
		return `{"error":{"code":` + code + `,"message":"` + message + `","errors":[{"reason":"` + reason + `","message":"` + message + `"}]}}`
	}
	storetest.RunReplies(t, at, []storetest.Reply{
		{Name: "absent", Op: "get", Status: 404, Header: json, Body: body("404", "notFound", "No such object: bucket/n/lock.json"), Is: store.ErrAbsent},
		{Name: "absent", Op: "exists", Status: 404, Header: json, Body: body("404", "notFound", "No such object: bucket/n/lock.json"), Is: store.ErrAbsent},
		{Name: "no_bucket", Op: "exists", Status: 404, Header: json, Body: body("404", "notFound", "The specified bucket does not exist."), Class: core.ClassNoSuchStore},
		{Name: "no_bucket", Op: "put", Status: 404, Header: json, Body: body("404", "notFound", "The specified bucket does not exist."), Class: core.ClassNoSuchStore},
		{Name: "no_bucket", Op: "list", Status: 404, Header: json, Body: body("404", "notFound", "The specified bucket does not exist."), Class: core.ClassNoSuchStore},
		{Name: "denied", Op: "get", Status: 403, Header: json, Body: body("403", "forbidden", "caller does not have access"), Class: core.ClassUnauthorized},
		{Name: "denied", Op: "exists", Status: 403, Header: json, Body: body("403", "forbidden", "caller does not have access"), Class: core.ClassUnauthorized},
		{Name: "unauthorized", Op: "put", Status: 401, Header: json, Body: body("401", "required", "login"), Class: core.ClassUnauthorized},
		{Name: "exists", Op: "create", Status: 412, Header: json, Body: body("412", "conditionNotMet", "precondition"), Is: store.ErrExists},
		{Name: "throttled", Op: "put", Status: 429, Header: json, Body: body("429", "rateLimitExceeded", "one write a second"), Class: core.ClassThrottled},
		{Name: "patience", Op: "create", Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: body("429", "rateLimitExceeded", "one write a second"), Class: core.ClassThrottled, RetryAfter: 7 * time.Second},
		{Name: "patience", Op: "get", Status: 503, Header: map[string]string{"Retry-After": "7"}, Class: core.ClassThrottled, RetryAfter: 7 * time.Second},
		{Name: "unavailable", Op: "get", Status: 503, Header: json, Body: body("503", "backendError", "later"), Class: core.ClassThrottled},
		{Name: "internal", Op: "create", Status: 500, Header: json, Body: body("500", "backendError", "broken"), Class: core.ClassOther},
	})
}

func TestRefused(t *testing.T) {
	storetest.RunRefused(t, func(hostPort string) string {
		t.Setenv("STORAGE_EMULATOR_HOST", hostPort)
		return "gs://bucket/locks"
	})
}

// TestNoCredentials: told by Open, and not on stdout.
func TestNoCredentials(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nope/hunter2.json")
	_, err := store.Open(t.Context(), "gs://bucket/locks")
	wantUnauthorized(t, err)
	if s, err := store.Open(t.Context(), "gs://bucket?anonymous=true"); err != nil {
		t.Fatal(err)
	} else {
		s.Close()
	}
}

func wantUnauthorized(t *testing.T, err error) {
	t.Helper()
	var e *store.Error
	if !errors.As(err, &e) || e.Class != core.ClassUnauthorized {
		t.Fatal(err)
	}
	t.Log(err)
}
