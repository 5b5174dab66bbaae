package server

import (
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestPartsEndFromTheTopDown(t *testing.T) {
	var order []string
	var parts stack
	for _, name := range []string{"kine", "api", "front"} {
		parts.push(name, time.Minute, func() { order = append(order, "end "+name) }, func() { order = append(order, "wait "+name) })
	}
	parts.stop(nil)
	want := []string{"end front", "wait front", "end api", "wait api", "end kine", "wait kine"}
	if !slices.Equal(order, want) {
		t.Errorf("got %q", order)
	}
}

func TestASlowPartDoesNotHoldUpTheRest(t *testing.T) {
	ended := false
	never := make(chan struct{})
	defer close(never)
	var parts stack
	parts.push("kine", time.Minute, func() { ended = true }, func() {})
	parts.push("stuck", time.Millisecond, func() {}, func() { <-never })
	parts.stop(nil)
	if !ended {
		t.Error("kine was not ended")
	}
}

func TestASecondSignalStopsAtOnce(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	ended := false
	var parts stack
	parts.push("kine", time.Minute, func() { ended = true }, func() {})
	parts.push("stuck", time.Minute, func() {}, func() { <-never })
	parts.stop(signals)
	if ended {
		t.Error("went on after the second signal")
	}
}

// The worst case: every part blocks in being asked, and none ever ends.
func TestPatienceKeepsThePromise(t *testing.T) {
	for name, asking := range map[string]time.Duration{"quick to ask": 0, "the listener's grace": 300 * time.Millisecond, "stuck": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			never := make(chan struct{})
			var asked atomic.Int32
			var parts stack
			for _, patience := range []time.Duration{kinePatience, apiPatience, controllersPatience, frontPatience} {
				parts.push("part", patience, func() { asked.Add(1); time.Sleep(asking) }, func() { <-never })
			}
			begun := time.Now()
			parts.stop(nil)
			if took := time.Since(begun); took >= 5*time.Second {
				t.Errorf("%s: stopping took %s, 5 s are promised", name, took)
			}
			close(never)
			time.Sleep(asking)
			synctest.Wait()
			if int(asked.Load()) != len(parts) {
				t.Errorf("%s: %d of %d parts were asked to end", name, asked.Load(), len(parts))
			}
		})
	}
}

func TestAdminURL(t *testing.T) {
	for bind, want := range map[string]string{
		"": "https://127.0.0.1:6443", "0.0.0.0": "https://127.0.0.1:6443", "::": "https://127.0.0.1:6443",
		"127.0.0.1": "https://127.0.0.1:6443", "::1": "https://[::1]:6443", "192.0.2.4": "https://192.0.2.4:6443",
	} {
		if got := adminURL(bind, 6443); got != want {
			t.Errorf("%q: got %s, want %s", bind, got, want)
		}
	}
}

func TestLockIsExclusiveAndReleased(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); err == nil {
		t.Error("locked twice")
	}
	unlock()
	again, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
