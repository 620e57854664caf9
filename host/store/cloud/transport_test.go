package cloud

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestTransport: a connection under HTTP/2 is watched, a proxy of the user's is used,
// and nothing bounds how many may be in use.
func TestTransport(t *testing.T) {
	for name, tuned := range map[string]*http.Transport{"own": Transport(), "tuned": {}} {
		Tune(tuned)
		if tuned.HTTP2 == nil || tuned.HTTP2.SendPingTimeout <= 0 || tuned.HTTP2.PingTimeout <= 0 {
			t.Errorf("%s: nobody pings", name)
		}
		if tuned.MaxConnsPerHost != 0 || tuned.MaxIdleConns != 0 || tuned.MaxIdleConnsPerHost < 64 || tuned.IdleConnTimeout == 0 {
			t.Errorf("%s: %+v", name, tuned)
		}
	}
	if own := Transport(); own.Proxy == nil || own.TLSHandshakeTimeout == 0 || own.DialContext == nil {
		t.Errorf("%+v", own)
	}
}

// TestTransportSpeaksHTTP2, with a server that does.
func TestTransportSpeaksHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	own := Transport()
	own.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	answer, err := (&http.Client{Transport: own}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err != nil || string(said) != "HTTP/2.0" {
		t.Errorf("%q, %v", said, err)
	}
	own.CloseIdleConnections()
}
