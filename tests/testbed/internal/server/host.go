package server

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
)

// setUpLogs sends logs to stderr: errors of the Kubernetes parts, and what the listener
// and kine have to say.
func setUpLogs(debug bool) {
	logrus.SetOutput(os.Stderr)
	logrus.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
	threshold := "ERROR"
	if debug {
		logrus.SetLevel(logrus.DebugLevel)
		threshold = "INFO"
	}
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	for name, value := range map[string]string{
		"logtostderr":                      "true",
		"legacy_stderr_threshold_behavior": "false",
		"stderrthreshold":                  threshold,
	} {
		if err := set.Set(name, value); err != nil {
			logrus.Warnf("log setting %s: %v", name, err)
		}
	}
}

// surviveFatal keeps the API server from ending the process while it is being stopped: start
// hooks that are cut off call that fatal. The hook's goroutine stays behind until the exit.
func surviveFatal() {
	klog.OsExit = func(int) { select {} }
}

// lock keeps a second server away from the same data; the kernel drops it with the process.
func lock(dir string) (func(), error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot use the data directory: %w; choose a writable --data-dir", err)
	}
	path := filepath.Join(dir, "testbed.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot use the data directory: %w; choose a writable --data-dir", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = file.Close()
		return nil, fmt.Errorf("another testbed runs on %s: stop it or choose another --data-dir", dir)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

// freePort is a loopback port for the API server behind the front. Another process could
// take it before the API server does; that ends the start with a clear error.
func freePort() (int, error) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("no free loopback port for the API server: %w", err)
	}
	defer probe.Close()
	_, text, err := net.SplitHostPort(probe.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// adminURL is what the kubeconfig names: loopback, unless only another address is served.
func adminURL(bind string, port int) string {
	host := "127.0.0.1"
	if ip := net.ParseIP(bind); ip != nil && !ip.IsUnspecified() {
		host = bind
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(port))
}
