//! Codes of what this library logs at `info` and above: the field `code`. Stable, whatever becomes of the words
//! next to it.

/// Constants for the codes of a crate's log records, each with what it means, and `ALL` of them for a test of the docs.
#[macro_export]
macro_rules! log_codes {
    ($($name:ident = $code:literal: $means:literal;)*) => {
        $(#[doc = $means] pub const $name: &str = $code;)*

        /// Each with what it means.
        pub const ALL: &[(&str, &str)] = &[$(($code, $means)),*];
    };
}

log_codes! {
    FAILED = "failed": "the program exits with an error, which is the message";
    METRICS_SERVED = "metrics-served": "metrics and health are served at `address`";
    METRICS_NOT_SERVED = "metrics-not-served": "metrics and health are not served; retried";
    JOURNAL_UNAVAILABLE = "journal-unavailable": "journald is not available, and the log goes to standard \
        error";
    HTTP_CONNECTION_LOST = "http-connection-lost": "a connection to one of our ports broke before it was used";
    HTTP_CUT_OFF = "http-cut-off": "requests to one of our ports were still under way when the program ended";
}
