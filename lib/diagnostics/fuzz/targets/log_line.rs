//! Lines that others print: recognised or not, in any bytes.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::finding_text;
use weaver_diagnostics::recognise::Recogniser;

static RECOGNISER: LazyLock<Recogniser> = LazyLock::new(|| Recogniser::new().expect("the signatures"));

fuzz_target!(|line: &[u8]| {
    for finding in [
        RECOGNISER.judge(line, || Place::line("log", 1)),
        Recogniser::judge_last(line, Place::line("log", 1)),
    ]
    .into_iter()
    .flatten()
    {
        let text = finding_text::text(&finding);
        assert!(text.starts_with(finding.code.id()));
        assert!(!text.contains('\u{1b}'), "a terminal would obey it: {text:?}");
    }
});
