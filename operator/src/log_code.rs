//! Codes of what is logged at `info` and above: the field `code`. Stable, whatever becomes of the words next to it.
//!
//! `journalctl CODE=lease-taken` finds them; docs/reference/log-codes.md lists them with what each means.

weaver_host::log_codes! {
    STARTING = "starting": "the operator starts; the record has its version and the address of the API server";
    STOPPING = "stopping": "a signal arrived, or another operator takes over; running reconciliations are finished first";
    LEASE_TAKEN = "lease-taken": "this operator is the leader; `why` is why the lease was free";
    LEASE_AWAITED = "lease-awaited": "another operator leads; a warning if both have the same priority";
    LEASE_RELEASED = "lease-released": "the lease was released: the next operator takes over at once";
    LEASE_NOT_RELEASED = "lease-not-released": "the lease could not be released; it expires by itself";
    LEASE_NOT_RENEWED = "lease-not-renewed": "the renewal of the lease failed and is retried; writing stops before the lease expires";
    LEASE_UNREACHABLE = "lease-unreachable": "a candidate cannot read the lease, and retries";
    STANDALONE = "standalone": "no lease is taken (`--standalone`)";
    PAUSED = "paused": "all resources are paused; `reason` is the user's text";
    RESUMED = "resumed": "no longer paused";
    KIND_NOT_SERVED = "kind-not-served": "ConfigMapSyncs, ResourceSyncs or ServiceTokens cannot be listed, everywhere or \
        in one namespace; retried";
    WATCH_FAILED = "watch-failed": "one of the operator's own watches failed and was restarted";
    WATCHDOG_NOT_FED = "watchdog-not-fed": "a loop hangs: systemd or the kubelet will restart the program";
    NO_HTTP2 = "no-http2": "the API server does not support HTTP/2: each watch uses its own connection";
    EVENT_REFUSED = "event-refused": "the API server refused an Event; nothing else is affected";
    RECONCILED = "reconciled": "a resource's conditions have changed; `ready` and `reason` are those of Ready";
    RECONCILIATION_FAILED = "reconciliation-failed": "retried in `retry_in_s`; logged at growing intervals: \
        `left_out` earlier failures were not logged";
    RECONCILIATION_ABORTED = "reconciliation-aborted": "a reconciliation did not finish in time during shutdown";
    PARSE_FAILED = "parse-failed": "a resource cannot be parsed as its kind, and is not touched";
    COPY_REMOVED = "copy-removed": "a stale copy was deleted";
    TAKEN_OVER = "taken-over": "an existing object was adopted as a copy";
    RELEASED = "released": "the finalizer of a deleted ConfigMapSync or ResourceSync was removed";
    ORPHANS_LEFT = "orphans-left": "the finalizer was removed, but copies may remain: `weaver orphans list`";
    UPSTREAM_COPIES_STAY = "upstream-copies-stay": "objects that the upstream operator made for a deleted resource stay";
    UPSTREAM_RUNS = "upstream-runs": "the finalizer of the upstream operator is back: stop that operator";
    TOKENS_WRITTEN = "tokens-written": "tokens were written to the Secret `secret` under the named keys; \
        the tokens are never logged";
    INSTALLED = "installed": "the installer finished the step in the message";
    ACCOUNTS_CHANGED = "accounts-changed": "accounts of a ServiceToken were made or removed, with its writer's rights";
    WEBHOOK_LISTENING = "webhook-listening": "the webhook listens at `address`";
    WEBHOOK_FAILED = "webhook-failed": "the conversion of an object failed, by a fault of the webhook";
    WEBHOOK_CERTIFICATE_SERVED = "webhook-certificate-served": "a certificate was read from the file and is used from now on";
    WEBHOOK_CERTIFICATE_AWAITED = "webhook-certificate-awaited": "there is no certificate yet: a Job of the \
        chart or of deploy/installer writes it, or `weaver crd install`";
    WEBHOOK_CERTIFICATE_UNUSABLE = "webhook-certificate-unusable": "the certificate cannot be used; the old \
        one stays in use, if there is one";
}
