#!/bin/sh
# Stands in for an API server: it listens to nothing, and is as ready as it is alive.
#   FAKE_SERVER=dies   ends at once, with a message
#   FAKE_ETC=FILE      writes FILE, as a k3s run by root writes /etc/rancher
case $1 in
--version) echo 'k3s version v0.0.0+fake' ;;
server)
  while [ $# -gt 1 ]; do
    [ "$1" = --write-kubeconfig ] && kubeconfig=$2
    shift
  done
  [ "$FAKE_SERVER" = dies ] && echo 'the fake has its reasons' >&2 && exit 7
  [ -n "$FAKE_ETC" ] && mkdir -p "$(dirname "$FAKE_ETC")" && echo seen >"$FAKE_ETC" && cat "$FAKE_ETC"
  echo $$ >"$kubeconfig"
  # As a service of systemd does; without the notice, readiness is asked for only after ten seconds.
  systemd-notify --no-block --ready 2>/dev/null
  exec sleep 600
  ;;
kubectl)
  kubeconfig=$3
  shift 4
  case $* in
  *readyz*) kill -0 "$(cat "$kubeconfig")" ;;
  apply*) ;;
  '-n config-weaver get lease'*)
    # Each operator that was started as a candidate is on the list.
    list=$(cat "$(dirname "$kubeconfig")"/pids/candidate-* | sed -n 's/^\([0-9]*\).*/{\\"holder\\": \\"a_b_c_d_\1_e\\"}/p' | paste -sd,)
    echo "{\"metadata\": {\"annotations\": {\"weaver.example.com/candidates\": \"[$list]\"}}}"
    ;;
  'get configmaps'*)
    echo '{"items": [{"kind": "ConfigMap", "data": {"a": "b"}, "metadata": {"name": "s", "namespace": "foo",
      "labels": {"weaver.example.com/sync-uid": "u1"}, "annotations": {"weaver.example.com/sync": "team/s/u1",
      "weaver.example.com/source": "ConfigMap/team/s"}}}]}'
    ;;
  'get -f'*)
    echo '{"items": [{"kind": "ConfigMap", "data": {"a": "b"}, "metadata": {"name": "s", "namespace": "team"}},
      {"kind": "ConfigMapSync", "metadata": {"name": "s", "namespace": "team", "uid": "u1"},
      "spec": {"source": {"name": "s", "namespace": "team"}, "syncToNamespaces": ["foo"]}}]}'
    ;;
  *) echo "the fake does not know: $*" >&2 && exit 1 ;;
  esac
  ;;
esac
