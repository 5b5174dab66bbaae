package controlplane

import (
	"context"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// watches is the call of etcd by which kinds are watched, one stream for each.
const watches = "/etcdserverpb.Watch/Watch"

// ofProgress is the number of kine's question for a stream's context that is for the loop below: the first is for its
// reports every few seconds, and later ones are for watches.
const ofProgress = 2

// noWatch is the WatchId of what is reported to all watches of a stream.
const noWatch = -1

// onDemand has kine look for requests of progress when there is one. By itself it looks ten times a second in each
// stream: with the hundred of an API server that does nothing, most of what that takes of a processor.
func onDemand(service any, stream grpc.ServerStream, call *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
	if call.FullMethod == watches {
		stream = newWatchStream(stream)
	}
	return serve(service, stream)
}

// watchStream opens a gate when progress is requested, and shuts it when it was reported.
type watchStream struct {
	grpc.ServerStream
	mutex    sync.Mutex
	contexts int
	received bool          // a request, which kine has taken note of when it asks for the next message
	gate     chan struct{} // closed while it is open
	isOpen   bool
}

func newWatchStream(stream grpc.ServerStream) *watchStream {
	return &watchStream{ServerStream: stream, gate: make(chan struct{})}
}

func (w *watchStream) Context() context.Context {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.contexts++; w.contexts == ofProgress {
		return gatedContext{w.ServerStream.Context(), w}
	}
	return w.ServerStream.Context()
}

func (w *watchStream) RecvMsg(message any) error {
	w.mutex.Lock()
	if w.received && !w.isOpen {
		close(w.gate)
		w.isOpen = true
	}
	w.received = false
	w.mutex.Unlock()
	err := w.ServerStream.RecvMsg(message)
	request, ok := message.(*etcdserverpb.WatchRequest)
	if err == nil && ok && request.GetProgressRequest() != nil {
		w.mutex.Lock()
		w.received = true
		w.mutex.Unlock()
	}
	return err
}

func (w *watchStream) SendMsg(message any) error {
	response, ok := message.(*etcdserverpb.WatchResponse)
	if ok && response.WatchId == noWatch && !response.Created && !response.Canceled {
		w.mutex.Lock()
		if w.isOpen {
			w.gate = make(chan struct{})
			w.isOpen = false
		}
		w.mutex.Unlock()
	}
	return w.ServerStream.SendMsg(message)
}

func (w *watchStream) opened() <-chan struct{} {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.gate
}

// gatedContext holds up a loop that asks in each round whether it is over, until there is something to do.
type gatedContext struct {
	context.Context
	stream *watchStream
}

func (c gatedContext) Done() <-chan struct{} {
	over := c.Context.Done()
	select {
	case <-c.stream.opened():
	case <-over:
	}
	return over
}
