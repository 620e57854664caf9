//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeS3 answers every request with one error, as S3 words it.
type fakeS3 struct {
	url    string // of the store
	status int
	code   string
	asked  atomic.Int32
}

func newFakeS3(t *testing.T, status int, code string) *fakeS3 {
	f := &fakeS3{status: status, code: code}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = s3URL(server.URL)
	return f
}

func s3URL(endpoint string) string {
	return "s3://bucket?endpoint=" + endpoint + "&region=us-east-1&use_path_style=true"
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	f.asked.Add(1)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(f.status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>no</Message></Error>`, f.code)
}

// asking is every command that needs a store, with the status it ends in if the store is silent.
func asking(storeURL string) map[string][]string {
	lease := `{"name":"n","store":"` + storeURL + `","protocol":"lastwriter","holder":"h","epoch":0,"token":0,"ttl_s":6,"first_acquired_at":"2025-01-01T00:00:00Z"}`
	strict := strings.NewReplacer("lastwriter", "strict", `"epoch":0,"token":0`, `"epoch":3,"token":2`).Replace(lease)
	return map[string][]string{
		"run":              {"run", "n", "--", "touch", "ran"},
		"acquire":          {"acquire", "--ttl", "60s", "n"},
		"run-strict":       {"run", "--protocol", "strict", "n", "--", "touch", "ran"},
		"session":          {"run", "--protocol", "strict", "--session", "n", "--", "touch", "ran"},
		"permit":           {"permit", "n", "--capacity", "1", "--width", "1", "--", "touch", "ran"},
		"permit-limit":     {"permit", "n", "--capacity", "1", "--width", "1", "--store-limit", "1", "--", "touch", "ran"},
		"break":            {"break", "--why", "it hangs", "n"},
		"status":           {"status", "n"},
		"ls":               {"ls"},
		"watch":            {"watch", "n"},
		"renew":            {"renew", lease},
		"release":          {"release", lease},
		"accompany":        {"accompany", "--lease", lease, "--", "touch", "ran"},
		"renew-strict":     {"renew", strict},
		"release-strict":   {"release", strict},
		"accompany-strict": {"accompany", "--lease", strict, "--", "touch", "ran"},
		"invoke":           {"invoke", "n", "--", "touch", "ran"},
		"invoke-strict":    {"invoke", "--protocol", "strict", "n", "--", "touch", "ran"},
		"remote":           {"remote", "n", "--lease", lease, "--", "touch", "ran"},
		"remote-strict":    {"remote", "n", "--lease", strict, "--", "touch", "ran"},
	}
}

// mayBeStrict are those of them that ask first how the name is kept.
var mayBeStrict = map[string]bool{
	"run": true, "acquire": true, "run-strict": true, "session": true, "invoke": true, "invoke-strict": true,
	"permit": true, "permit-limit": true,
}

func (s *scene) withStore(storeURL string, words ...string) *process {
	s.Helper()
	environment := []string{
		"env", "MOPSLOCK_STORE=" + storeURL, "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=hunter2",
		"AWS_SESSION_TOKEN=", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/nowhere", "AWS_SHARED_CREDENTIALS_FILE=/nowhere", "mopslock-host",
	}
	return s.start(append(environment, words...)...)
}

// An unauthorized or missing store is told at once, by the first answer: 69.
func TestStoreThatRefuses(t *testing.T) {
	besideOthers(t)
	for name, answer := range map[string]*fakeS3{
		"unauthorized":  newFakeS3(t, http.StatusForbidden, "AccessDenied"),
		"no_such_store": newFakeS3(t, http.StatusNotFound, "NoSuchBucket"),
	} {
		for command, words := range asking(answer.url) {
			t.Run(name+"/"+command, func(t *testing.T) {
				s := newScene(t)
				server := newFakeS3(t, answer.status, answer.code)
				for i := range words {
					words[i] = strings.ReplaceAll(words[i], answer.url, server.url)
				}
				p := s.withStore(server.url, words...)
				p.mustExit(statusUnavailable)
				text := p.err.String()
				if !strings.Contains(text, name) && !strings.Contains(text, answer.code) {
					t.Error("it does not say what the store said:", text)
				}
				most := int32(1)
				if name == "no_such_store" && (mayBeStrict[command] || strings.HasPrefix(command, "remote")) {
					most = 2 // a HEAD cannot tell a missing bucket from a missing object; what follows can
				}
				if name == "no_such_store" && strings.HasPrefix(command, "invoke") {
					most++ // whether the name is a mops memo's is found out before
				}
				if command == "remote" {
					most++ // whether the first result wins is found out besides
				}
				if server.asked.Load() > most || strings.Contains(text, "hunter2") || s.exists("ran") || p.out.String() != "" {
					t.Errorf("asked %d times; %s%s", server.asked.Load(), p.out, text)
				}
			})
		}
	}
}

// A store that is silent or only throttles is given its time (5 s; accompany and remote one TTL), then: 69, or 77.
func TestStoreThatIsSilent(t *testing.T) {
	besideOthers(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	_ = listener.Close()
	for name, storeURL := range map[string]string{
		"unreachable": s3URL(closed),
		"throttled":   newFakeS3(t, http.StatusServiceUnavailable, "SlowDown").url,
	} {
		for command, words := range asking(storeURL) {
			want := statusUnavailable
			if strings.HasPrefix(command, "accompany") || strings.HasPrefix(command, "remote") {
				want = statusCannotKeep
			}
			t.Run(name+"/"+command, func(t *testing.T) {
				s := newScene(t)
				server := storeURL
				if name == "throttled" { // the outer one is closed when the parallel part begins
					server = newFakeS3(t, http.StatusServiceUnavailable, "SlowDown").url
				}
				for i := range words {
					words[i] = strings.ReplaceAll(words[i], storeURL, server)
				}
				p := s.withStore(server, words...)
				p.mustExit(want)
				if text := p.err.String(); text == "" || strings.Contains(text, "hunter2") || s.exists("ran") || p.out.String() != "" {
					t.Errorf("%s%s", p.out, text)
				}
			})
		}
	}
	t.Run("without-lease", func(t *testing.T) {
		s := newScene(t)
		words := append([]string{"accompany", "--without-lease"}, asking(s3URL(closed))["accompany"][1:]...)
		s.withStore(s3URL(closed), words...).mustExit(0)
		if !s.exists("ran") {
			t.Error("not run")
		}
	})
}

// The store answers after a while: it was only slow to come up.
func TestStoreThatComesUp(t *testing.T) {
	besideOthers(t)
	for _, words := range [][]string{{"status", "n"}, {"ls"}} {
		t.Run(words[0], func(t *testing.T) {
			s := newScene(t)
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/xml")
				switch {
				case asked.Add(1) < 3:
					w.WriteHeader(http.StatusServiceUnavailable)
				case r.URL.Query().Has("list-type"):
					fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>`)
				default:
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code></Error>`)
				}
			}))
			t.Cleanup(server.Close)
			s.withStore(s3URL(server.URL), words...).mustExit(statusNothing)
		})
	}
}

// On stores that stamp in whole seconds the least TTL is 5 s; nothing is asked for a smaller one.
func TestLeastTTLOfACoarseStore(t *testing.T) {
	s := newScene(t)
	server := newFakeS3(t, http.StatusForbidden, "AccessDenied")
	p := s.withStore(server.url, "run", "--protocol", "lastwriter", "--ttl", "4s", "n", "--", "true")
	p.mustExit(statusUsage)
	if !strings.Contains(p.err.String(), "at least 5s on this store") || server.asked.Load() > 0 {
		t.Error(p.err)
	}
}

// A directory that may be read and not written is said so at once. Not as root, who may all.
func TestDirectoryThatMayNotBeWritten(t *testing.T) {
	s := newScene(t)
	s.onlyDirectories("a server's permissions are told by an answer, as TestStoreThatRefuses has it")
	if exec.Command("sh", "-c", "mkdir -m 0555 "+s.path("store")+" && ! touch "+s.path("store/x")).Run() != nil {
		t.Skip("this user may write everywhere")
	}
	p := s.host("run", "s.json", "n", "--", "touch", "ran")
	p.mustExit(statusUnavailable)
	s.decided("s.json", "mopslock", statusUnavailable, "unusable")
}
