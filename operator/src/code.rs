//! Codes of what is logged at `info` and above: the field `code`. Stable, whatever becomes of the words next to it.
//!
//! `journalctl CODE=lease-taken` finds them; docs/reference/log-codes.md lists them with what each means.

weaver_host::log_codes! {
    STARTING = "starting": "the program begins; the address of the API server and its own version";
    ENDING = "ending": "a signal, or another operator's turn; what is under way is finished first";
    LEASE_TAKEN = "lease-taken": "it leads from now on; `why` says how it came to be free";
    LEASE_AWAITED = "lease-awaited": "another operator leads; a warning if both have the same priority";
    LEASE_GIVEN_BACK = "lease-given-back": "the next one need not wait for it";
    LEASE_LEFT = "lease-left": "it could not be released, and expires";
    LEASE_NOT_RENEWED = "lease-not-renewed": "tried again; writing stops before it runs out";
    LEASE_UNREACHABLE = "lease-unreachable": "a candidate cannot look at it, and tries again";
    STANDALONE = "standalone": "no lease is taken (`--standalone`)";
    PAUSED = "paused": "all resources are paused; `reason` is the user's text";
    RESUMED = "resumed": "no longer paused";
    KIND_NOT_SERVED = "kind-not-served": "a kind of ours cannot be listed, everywhere or in one \
        namespace; tried again";
    WATCH_FAILED = "watch-failed": "one of the operator's own watches failed and was restarted";
    WATCHDOG_NOT_FED = "watchdog-not-fed": "a loop hangs, and systemd or the kubelet will end the program";
    NO_HTTP2 = "no-http2": "each watch has a connection of its own";
    EVENT_NOT_TOLD = "event-not-told": "the API server refused an Event; nothing else depends on it";
    RECONCILED = "reconciled": "a resource's conditions have changed; `ready` and `reason` are those of Ready";
    RECONCILIATION_FAILED = "reconciliation-failed": "tried again in `retry_in_s`; logged at growing intervals: `left_out` \
        failures before it were not";
    RECONCILIATION_ABORTED = "reconciliation-aborted": "one did not end in time, when the program was to end";
    NOT_UNDERSTOOD = "not-understood": "a resource cannot be read as one of its kind, and is left alone";
    COPY_REMOVED = "copy-removed": "it is not wanted any more";
    TAKEN_OVER = "taken-over": "an existing object was adopted as a copy";
    RELEASED = "released": "the finalizer of a deleted ConfigMapSync was removed";
    COPIES_LEFT_BEHIND = "copies-left-behind": "the same, and copies may be there still: `weaver orphans list`";
    UPSTREAM_COPIES_STAY = "upstream-copies-stay": "objects that the upstream operator made for a deleted \
        resource stay";
    UPSTREAM_RUNS = "upstream-runs": "its finalizer is back: end that operator";
    TOKENS_WRITTEN = "tokens-written": "into the Secret `secret`, for the keys that are named; never the \
        tokens themselves";
    WEBHOOK_LISTENING = "webhook-listening": "at `address`";
    WEBHOOK_FAILED = "webhook-failed": "an object could not be converted, by a fault of ours";
    WEBHOOK_CERTIFICATE_SERVED = "webhook-certificate-served": "it was read from the file, and is shown \
        from now on";
    WEBHOOK_CERTIFICATE_AWAITED = "webhook-certificate-awaited": "there is no certificate yet: `weaver \
        crd install`";
    WEBHOOK_CERTIFICATE_UNUSABLE = "webhook-certificate-unusable": "the old one is shown, if there is one";
}
