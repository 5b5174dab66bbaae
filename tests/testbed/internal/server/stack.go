package server

import (
	"os"
	"time"

	"github.com/sirupsen/logrus"
)

// How long each part may take to end: together less than the 5 s that are promised. Every
// acknowledged write is on disk already, so going on without a slow part loses nothing.
const (
	frontPatience       = 600 * time.Millisecond
	controllersPatience = 800 * time.Millisecond
	apiPatience         = 100 * time.Millisecond // it is asked and not waited for
	kinePatience        = 2300 * time.Millisecond
)

// stack holds running parts, the last started on top.
type stack []part

type part struct {
	name     string
	patience time.Duration
	end      func() // asks it to end, and may itself wait for something
	wait     func() // returns when it has
}

func (s *stack) push(name string, patience time.Duration, end, wait func()) {
	*s = append(*s, part{name, patience, end, wait})
}

// stop ends the parts from the top down; a further signal cuts the waiting short. A part's
// patience counts from before it is asked: the sum of all is the longest that a stop takes.
func (s stack) stop(signals <-chan os.Signal) {
	for i := len(s) - 1; i >= 0; i-- {
		over := time.After(s[i].patience)
		ended := make(chan struct{})
		go func() { s[i].end(); s[i].wait(); close(ended) }()
		select {
		case <-ended:
		case <-over:
			logrus.Infof("%s did not end within %s, going on", s[i].name, s[i].patience)
		case <-signals:
			logrus.Warn("second signal: stopping at once")
			return
		}
	}
}
