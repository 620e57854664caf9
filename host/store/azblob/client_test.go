package azblob

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/host/store"
)

// TestEnvironment: each kind of credentials is used as the environment has it when the
// store is opened. A token goes to no other server than the environment's.
func TestEnvironment(t *testing.T) {
	var asked *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		own(w, r)
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	key := "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	signedFor := func(account string) func(*http.Request) bool {
		return func(r *http.Request) bool {
			return strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey "+account+":")
		}
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		url  string
		want func(*http.Request) bool // nil: it cannot be opened
	}{
		{
			"key",
			map[string]string{"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_KEY": key},
			at(address),
			signedFor("other"),
		},
		{
			"bad_key", map[string]string{"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_KEY": "not base64!"}, at(address), nil,
		},
		{
			"token",
			map[string]string{
				"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_SAS_TOKEN": "sig=hunter2", "AZURE_STORAGE_DOMAIN": address,
				"AZURE_STORAGE_PROTOCOL": "http", "AZURE_STORAGE_IS_LOCAL_EMULATOR": "true",
			},
			"azblob://container/locks",
			func(r *http.Request) bool {
				return r.URL.Query().Get("sig") == "hunter2" && r.Header.Get("Authorization") == ""
			},
		},
		{
			"token_abroad", map[string]string{"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_SAS_TOKEN": "sig=hunter2"}, at(address), nil,
		},
		{
			"connection_string",
			map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=http;AccountName=third;AccountKey=" + key +
				";BlobEndpoint=http://" + address + "/third"},
			"azblob://container/locks?storage_account=third",
			signedFor("third"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"ACCOUNT", "KEY", "SAS_TOKEN", "CONNECTION_STRING", "DOMAIN", "PROTOCOL", "IS_LOCAL_EMULATOR"} {
				t.Setenv("AZURE_STORAGE_"+name, c.env["AZURE_STORAGE_"+name])
			}
			asked = nil
			s, err := store.Open(t.Context(), c.url)
			if c.want == nil {
				if err == nil || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Put(t.Context(), "k", nil, ""); err != nil {
				t.Fatal(err)
			}
			if !c.want(asked) {
				t.Errorf("asked %s with %q", asked.URL, asked.Header)
			}
		})
	}
}

// TestClock: Azure's own stamps are trusted, those of another domain are not, also if a
// connection string names it.
func TestClock(t *testing.T) {
	const elsewhere = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://stack.example.com/a"
	for _, c := range []struct {
		domain, connection, url string
		steps                   bool
	}{
		{"", "", "azblob://container", false},
		{"", "", "azblob://container?clock=hint", true},
		{"", "", "azblob://container?domain=blob.core.usgovcloudapi.net", false},
		{"blob.core.chinacloudapi.cn", "", "azblob://container", false},
		{"blob.local.azurestack.external", "", "azblob://container", true},
		{"", "", at("127.0.0.1:1"), true},
		{"", "", at("127.0.0.1:1") + "&clock=steady", false},
		{"", elsewhere, "azblob://container", true},
	} {
		t.Setenv("AZURE_STORAGE_ACCOUNT", "a")
		t.Setenv("AZURE_STORAGE_KEY", "a2V5")
		if t.Setenv("AZURE_STORAGE_CONNECTION_STRING", c.connection); c.connection != "" {
			t.Setenv("AZURE_STORAGE_KEY", "")
		}
		t.Setenv("AZURE_STORAGE_DOMAIN", c.domain)
		s, err := store.Open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		if steps, why := store.ClockSteps(s); steps != c.steps {
			t.Errorf("%+v: %v: %s", c, steps, why)
		}
		s.Close()
	}
}
