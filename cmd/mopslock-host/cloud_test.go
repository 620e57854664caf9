//go:build unix && !mopslock_nocloud

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

// Tests called Cloud are of a program that has the clouds' SDKs. make test-servers runs them, since make test does not
// compile those.

// Scripts of real processes that are told of clouds.
func TestCloudScripts(t *testing.T) { runScripts(t, "testdata/cloud") }

// planted stands in every secret: whatever shows it shows a secret.
const planted = "hunter2hunter2"

// telltale answers with all that it was told, signatures and tokens included, as Azure's does to who signs with a wrong key.
func telltale(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("X-Ms-Error-Code", "SignatureDoesNotMatch")
		w.WriteHeader(http.StatusForbidden)
		told := strings.NewReplacer("<", " ", ">", " ", "&", " ").Replace(fmt.Sprint(r.URL, " ", r.Header, " string to sign: ", planted))
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SignatureDoesNotMatch</Code><Message>%s</Message><StringToSign>%[1]s</StringToSign></Error>`, told)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// Whatever a command fails for, it says so without what it was given to enter a store: on stdout and stderr, in the
// recording, the status file, and what it remembers of the store. A URL that is refused is not repeated with what it holds.
// That each cloud's errors hold no secret is proved in its package.
func TestCloudFailuresShowNoSecret(t *testing.T) {
	address, home := telltale(t), t.TempDir()
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": planted, "AWS_SESSION_TOKEN": planted, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "XDG_CACHE_HOME": home,
		"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_KEY": "", "AZURE_STORAGE_CONNECTION_STRING": "",
		"AZURE_STORAGE_SAS_TOKEN": "sv=2024-01-01&sig=" + planted, "AZURE_STORAGE_DOMAIN": address, "AZURE_STORAGE_PROTOCOL": "http",
	} {
		t.Setenv(name, value)
	}
	const region, refused = "&region=us-east-1&use_path_style=true", exit.StatusUsage
	for url, want := range map[string]int{
		"s3://bucket?endpoint=http://" + address + region: exit.StatusUnavailable,
		"azblob://bucket":                  exit.StatusUnavailable,
		"s3://user:" + planted + "@bucket": refused,
		"s3://bucket#" + planted:           refused,
		"s3://bucket?endpoint=http://user:" + planted + "@127.0.0.1:1" + region: refused,
		"file:///dir?secret=" + planted:                                         refused,
	} {
		lease := `{"name":"n","store":"` + url + `","protocol":"strict","holder":"h","epoch":1,"token":1,"ttl_s":6,"first_acquired_at":"2025-01-01T00:00:00Z"}`
		for _, words := range [][]string{
			{"run", "--wait", "0", "--status-file", "s.json", "--store", url, "n", "--", "touch", "ran"},
			{"ls", "--json", "--store", url},
			{"renew", lease},
			{"accompany", "--lease", lease, "--", "touch", "ran"},
		} {
			var out, errs bytes.Buffer
			a := newApp(strings.NewReader(""), &out, &errs)
			status := a.execute(slices.Insert(words, 1, "--trace", "trace"))
			if status != want && (want == refused || status != exit.StatusCannotKeep) || exists("ran") {
				t.Errorf("%s %s: exit status %d: %s", words[0], url, status, &errs)
			}
			shown := out.String() + errs.String()
			for _, dir := range []string{".", home} {
				files, _ := filepath.Glob(filepath.Join(dir, "*"))
				for _, file := range files {
					body, _ := os.ReadFile(file)
					shown += string(body)
				}
			}
			if strings.Contains(shown, planted) || strings.Contains(shown, base64.StdEncoding.EncodeToString([]byte(planted))) {
				t.Errorf("%s %s: shown: %s", words[0], url, shown)
			}
			recorded, _ := os.ReadFile("trace") // what happened, and nothing of where
			if bytes.Contains(recorded, []byte(address)) || bytes.Contains(recorded, []byte("unknown")) != (words[0] != "ls" && want != refused) {
				t.Errorf("%s %s: recorded: %q", words[0], url, recorded)
			}
		}
	}
}
