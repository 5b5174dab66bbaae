package controlplane

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// oneStream receives requests of progress, and takes what is sent.
type oneStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s oneStream) Context() context.Context { return s.ctx }
func (s oneStream) SendMsg(any) error        { return nil }
func (s oneStream) RecvMsg(message any) error {
	message.(*etcdserverpb.WatchRequest).RequestUnion = &etcdserverpb.WatchRequest_ProgressRequest{
		ProgressRequest: &etcdserverpb.WatchProgressRequest{},
	}
	return nil
}

func TestKineLooksForRequestsOfProgressWhenThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(context.Background())
		stream := newWatchStream(oneStream{ctx: ctx})
		_, ofProgress := stream.Context(), stream.Context()
		var looks atomic.Int32
		go func() {
			for {
				select {
				case <-ofProgress.Done():
					return
				case <-time.After(time.Second):
					looks.Add(1)
				}
			}
		}()
		for _, step := range []struct {
			what string
			do   func() error
			want int32
		}{
			{"nothing", func() error { return nil }, 0},
			{"a request that kine has not seen yet", func() error { return stream.RecvMsg(&etcdserverpb.WatchRequest{}) }, 0},
			{"the request for the next", func() error { return stream.RecvMsg(&etcdserverpb.WatchRequest{}) }, 10},
			{"an event", func() error { return stream.SendMsg(&etcdserverpb.WatchResponse{WatchId: 1}) }, 20},
			{"the report", func() error { return stream.SendMsg(&etcdserverpb.WatchResponse{WatchId: noWatch}) }, 21},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10*time.Second + time.Millisecond)
			if got := looks.Load(); got > step.want || got < step.want-1 {
				t.Errorf("after %s: %d looks, want %d or one less", step.what, got, step.want)
			}
		}
		end()
	})
}
