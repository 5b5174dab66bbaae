#!/bin/sh
# Stands in for the node agent.
#   FAKE_HOST=bad   preflight knows the host to be unfit
#   FAKE_GATE=shut  a name is not served
#   FAKE_AGENT=dies ends at once, with a message
verb=$1
while [ $# -gt 1 ]; do
  case $1 in
  --runtime-dir) runtime=$2 ;;
  --operator) operator=$2 ;;
  --webhook) webhook=$2 ;;
  esac
  shift
done
report() { echo "$1" >"$runtime/.report" && mv "$runtime/.report" "$runtime/report.json"; }
case $verb in
preflight) [ "$FAKE_HOST" != bad ] || { echo 'fail N-01 no memory controller; remedy: type this' && exit 11; } ;;
check) [ "$FAKE_GATE" != shut ] || { echo 'fail T-02 weaver.test is not served; remedy: type that' && exit 10; } ;;
run)
  [ "$FAKE_AGENT" = dies ] && echo 'the agent has its reasons' >&2 && exit 1
  if [ "$FAKE_GATE" = shut ]; then
    report '{"gate": "shut", "reason": "T-02", "findings": [{"severity": "fail"}], "operator": null}'
    exec sleep 600
  fi
  : >"$runtime/operator.kubeconfig"
  "$webhook" webhook &
  other=$!
  "$operator" run &
  child=$!
  trap 'kill $child $other; wait $child $other; exit 0' TERM
  report "{\"gate\": \"open\", \"reason\": \"\", \"findings\": [], \"operator\": {\"pid\": $child},
    \"webhook\": {\"pid\": $other}, \"definitions\": {\"installed\": true, \"reason\": \"\"}}"
  wait $child
  ;;
esac
