//go:build unix

package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// planted stands in every secret: whatever shows it shows a secret.
const planted = "hunter2hunter2"

// telltale is a server that answers with all that it was told, signatures and tokens
// included, as Azure's does to who signs with a wrong key.
func telltale(t *testing.T, status int, code string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("X-Ms-Error-Code", code)
		w.Header().Set("Location", "http://127.0.0.1:1/?X-Amz-Security-Token="+planted)
		w.WriteHeader(status)
		told := strings.NewReplacer("<", " ", ">", " ", "&", " ").Replace(fmt.Sprint(r.URL, " ", r.Header, " string to sign: ", planted))
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message><StringToSign>%s</StringToSign></Error>`, code, told, told)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// aPrivateKey is one that nobody else has.
var aPrivateKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
})

// secretsOfClouds is an environment full of secrets; address is that of Azure, and
// of the server that gives Google's tokens.
func secretsOfClouds(s *scene, address string) []string {
	key := strings.ReplaceAll(aPrivateKey(), "\n", `\n`)
	s.write("google.json", `{"type": "service_account", "client_email": "a@b", "private_key_id": "`+planted+`", "private_key": "`+key+
		`", "token_uri": "http://`+address+`/token?secret=`+planted+`"}`)
	return []string{
		"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=" + planted, "AWS_SESSION_TOKEN=" + planted, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=/nowhere", "AWS_SHARED_CREDENTIALS_FILE=/nowhere",
		"AZURE_STORAGE_ACCOUNT=account", "AZURE_STORAGE_KEY=", "AZURE_STORAGE_CONNECTION_STRING=",
		"AZURE_STORAGE_SAS_TOKEN=sv=2024-01-01&sig=" + planted, "AZURE_STORAGE_DOMAIN=" + address, "AZURE_STORAGE_PROTOCOL=http",
		"STORAGE_EMULATOR_HOST=", "GOOGLE_APPLICATION_CREDENTIALS=" + s.path("google.json"),
	}
}

// shown is all that a command of the scene has shown or left behind.
func (s *scene) shown(p *process) string {
	s.Helper()
	text := p.out.String() + p.err.String()
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "google.json" {
			return err
		}
		body, err := os.ReadFile(path)
		text += path + string(body)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return text
}

// TestFailuresShowNoSecret: whatever command fails, on whatever cloud, for whatever
// reason, says so without what it was given to enter: on stdout and stderr, in the
// recording, the status file, what it remembers of the store.
func TestFailuresShowNoSecret(t *testing.T) {
	if *engineFlag == "wasm" {
		t.Skip("an engine hears nothing of what stores are entered by")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close()
	servers := map[string]func(t *testing.T) string{
		"unreachable": func(*testing.T) string { return closed },
		"wrong key":   func(t *testing.T) string { return telltale(t, http.StatusForbidden, "SignatureDoesNotMatch") },
		"wrong SAS":   func(t *testing.T) string { return telltale(t, http.StatusForbidden, "AuthenticationFailed") },
		"redirect":    func(t *testing.T) string { return telltale(t, http.StatusTemporaryRedirect, "TemporaryRedirect") },
		"moved":       func(t *testing.T) string { return telltale(t, http.StatusMovedPermanently, "PermanentRedirect") },
		"strange":     func(t *testing.T) string { return telltale(t, http.StatusTeapot, "Strange") },
	}
	stores := map[string]func(address string) string{
		"s3":     func(address string) string { return s3URL("http://" + address) },
		"azblob": func(string) string { return "azblob://bucket" }, // the SDK lets no URL say where a SAS token goes
		"gs":     func(string) string { return "gs://bucket" },     // no further than the server of tokens
	}
	for reason, server := range servers {
		for kind, storeURL := range stores {
			all := asking("STORE")
			commands := []string{"run-strict", "ls", "accompany", "invoke"}
			if reason == "wrong key" {
				commands = append(commands, "acquire", "permit", "break", "status", "renew", "release", "remote")
			}
			for _, command := range commands {
				t.Run(reason+"/"+kind+"/"+command, func(t *testing.T) {
					s := newScene(t)
					address := server(t)
					url := storeURL(address)
					words := slices.Clone(all[command])
					for i := range words {
						words[i] = strings.ReplaceAll(words[i], "STORE", url)
					}
					environment := append([]string{"env", "MOPSLOCK_STORE=" + url, "XDG_CACHE_HOME=" + s.path("cache")}, secretsOfClouds(s, address)...)
					own := []string{"mopslock-host", words[0], "--json", "--trace", s.path("trace")}
					if !slices.Contains([]string{"status", "ls", "break", "renew", "release"}, words[0]) {
						own = append(own, "--status-file", s.path("s.json"))
					}
					if _, limited := wouldWait[command]; limited {
						own = append(own, "--wait", "1s")
					}
					p := s.start(append(append(environment, own...), words[1:]...)...)
					if status := p.wait(); status <= 0 || status == statusUsage || s.exists("ran") {
						t.Fatalf("exit status %d: %s", status, p.err)
					}
					t.Log(p.err.String())
					if text := s.shown(p); strings.Contains(text, planted) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(planted))) {
						t.Errorf("shown: %s", text)
					}
				})
			}
		}
	}
}

// wouldWait are those that would wait for a store that does not answer.
var wouldWait = map[string]bool{"run-strict": true, "acquire": true, "permit": true, "invoke": true}

// TestBadURLsShowNoSecret: a URL that is refused is not repeated with what it holds.
func TestBadURLsShowNoSecret(t *testing.T) {
	if *engineFlag == "wasm" {
		t.Skip("an engine hears nothing of URLs")
	}
	urls := map[string]int{
		"s3://user:" + planted + "@bucket":                                              statusUsage,
		"s3://" + planted + "@bucket/prefix":                                            statusUsage,
		"s3://user:" + planted + "/with-slash@bucket":                                   statusUsage,
		"s3://bucket?region=us-east-1&secret=" + planted:                                0,
		"s3://bucket#" + planted:                                                        statusUsage,
		"s3://bucket?endpoint=http://user:" + planted + "@127.0.0.1:1&region=us-east-1": statusUsage,
		"s3://bucket?endpoint=http://127.0.0.1:1/?t=" + planted + "&region=us-east-1":   0,
		"s3://bucket?region=us-east-1&%zz=" + planted:                                   statusUsage,
		"s3://bucket?region=us-east-1;secret=" + planted:                                statusUsage,
		"s3:user:" + planted + "@bucket":                                                statusUsage,
		"azblob://c?sv=2024&sig=" + planted:                                             0,
		"gs://bucket?access_id=" + planted:                                              0,
		"gs://bucket?token=" + planted + "&anonymous=true":                              0,
		"file://user:" + planted + "@localhost/dir":                                     statusUsage,
		"file:///dir?secret=" + planted:                                                 statusUsage,
		"http://user:" + planted + "@host/dir":                                          statusUsage,
		"mysql://user:" + planted + "@tcp(host)/dir":                                    statusUsage,
		"http://host/dir?sig=" + planted:                                                statusUsage,
	}
	lease := func(url string) string {
		return `{"name":"n","store":"` + url + `","protocol":"lastwriter","holder":"h","epoch":0,"token":0,"ttl_s":6,"first_acquired_at":"2025-01-01T00:00:00Z"}`
	}
	for _, url := range slices.Sorted(maps.Keys(urls)) {
		for command, words := range map[string][]string{
			"run":       {"run", "--wait", "0", "--store", url, "n", "--", "touch", "ran"},
			"ls":        {"ls", "--json", "--store", url},
			"renew":     {"renew", lease(url)},
			"accompany": {"accompany", "--lease", lease(url), "--", "touch", "ran"},
		} {
			t.Run(command+"/"+url, func(t *testing.T) {
				s := newScene(t)
				listener := telltale(t, http.StatusForbidden, "no")
				environment := append([]string{"env", "XDG_CACHE_HOME=" + s.path("cache")}, secretsOfClouds(s, listener)...)
				p := s.start(append(append(environment, "mopslock-host"), words...)...)
				status := p.wait()
				if want := urls[url]; status <= 0 || want != 0 && status != want || s.exists("ran") {
					t.Errorf("exit status %d: %s", status, p.err)
				}
				if text := s.shown(p); strings.Contains(text, planted) {
					t.Errorf("shown: %s", text)
				}
			})
		}
	}
}
