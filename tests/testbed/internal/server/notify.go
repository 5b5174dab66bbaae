package server

import (
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

const notifyVariable = "NOTIFY_SOCKET"

// notifier speaks to the service manager. It takes the socket out of the environment, since
// kube-apiserver would report READY for the whole process as soon as its port is open.
type notifier struct{ socket string }

func takeNotifier() notifier {
	n := notifier{os.Getenv(notifyVariable)}
	if err := os.Unsetenv(notifyVariable); err != nil {
		logrus.Warnf("%s: %v", notifyVariable, err)
	}
	return n
}

// tell sends one state; without a service manager it does nothing.
func (n notifier) tell(state string) {
	if n.socket == "" {
		return
	}
	// The library reads the variable; `true` has it taken away again.
	if err := os.Setenv(notifyVariable, n.socket); err != nil {
		logrus.Warnf("%s: %v", notifyVariable, err)
		return
	}
	if _, err := daemon.SdNotify(true, state); err != nil {
		logrus.Warnf("cannot tell the service manager %s: %v", state, err)
	}
}
