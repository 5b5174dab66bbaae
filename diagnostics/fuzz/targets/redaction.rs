//! Redaction: a seeded secret does not come out, whatever stands around it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::tokens::{redacted, without_tokens};

const SECRET: &str = "hunter2hunter2";

fuzz_target!(|text: &str| {
    let _ = (redacted(text), without_tokens(text));
    // A line of its own: what is before it may be a quote that does not end, or anything.
    let seeded = format!("{}\ntoken: {SECRET}\n", text.replace(SECRET, ""));
    assert!(!redacted(&seeded).contains(SECRET), "{seeded:?}");
});
