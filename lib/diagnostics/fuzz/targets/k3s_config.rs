//! k3s' configuration and its drop-ins: any text is merged or named as wrong, by a line that the text has.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::k3s_config::merge;
use weaver_diagnostics::serving::{ServingStage, wanted};
use weaver_diagnostics::text_file::TextFile;

fuzz_target!(|texts: (&str, &str)| {
    let (one, other) = texts;
    let files = [TextFile::new("/one", one), TextFile::new("/other", other)];
    let effective = merge(&files, &[]);
    for finding in &effective.findings {
        for seen in &finding.evidence {
            let text = if seen.place.file == "/one" { one } else { other };
            // YAML ends a line at a carriage return, too.
            let count = text.split(['\n', '\r']).count() as u64;
            assert!(seen.place.line.is_none_or(|line| (1..=count).contains(&line)), "{seen} of {count}");
        }
    }
    let _ = wanted(&effective.tls_san, ServingStage::Serving);
});
