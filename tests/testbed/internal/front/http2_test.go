package front

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// k3s allows 250 streams on a connection; clients size their pools by it.
func TestStreamsPerConnection(t *testing.T) {
	url, certs := frontAndBackend(t, func(http.ResponseWriter, *http.Request) {})
	c := client(t, certs, nil)
	request, err := http.NewRequest(http.MethodGet, url+"/ping", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = get(t, c, request) // the certificate exists from here on

	config := c.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	connection, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(connection, http2.ClientPreface)
	framer := http2.NewFramer(connection, connection)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("first frame is %s", frame.Header().Type)
	}
	if got, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || got != 250 {
		t.Errorf("got %d, %v", got, ok)
	}
}

// More watches than one connection to the API server carries must not hold up a short call.
func TestManyWatchesLeaveRoom(t *testing.T) {
	const watches = 600
	var open sync.WaitGroup
	open.Add(watches)
	url, certs := frontAndBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/watch" {
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c := client(t, certs, &certs.Admin)
	c.Timeout = 0
	ping, err := http.NewRequest(http.MethodGet, url+"/ping", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = get(t, c, ping)

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	for range watches {
		clients.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/watch", nil)
			if err != nil {
				t.Error(err)
				return
			}
			response, err := c.Do(request)
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			defer response.Body.Close()
			// Counted here: what the backend has answered may still be on its way.
			open.Done()
			<-ctx.Done()
		})
	}
	all := make(chan struct{})
	go func() { open.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
		t.Fatal("not all watches came through")
	}
	short, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/short", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(short)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", response, err)
	}
	_ = response.Body.Close()
}
