//! Redaction: a seeded secret does not come out, whatever stands around it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::tokens::{redacted, without_tokens};

const SECRET: &str = "hunter2hunter2";

fuzz_target!(|text: &str| {
    let _ = (redacted(text), without_tokens(text));
    let text = text.replace(SECRET, "");
    if text.contains(SECRET) {
        return;
    }
    // A line of its own: what is before it may be a quote that does not end, or anything.
    let seeded = format!("{text}\ntoken: {SECRET}\n");
    assert!(!redacted(&seeded).contains(SECRET), "{seeded:?}");
});
