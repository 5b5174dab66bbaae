//! Kubeconfigs: what is read and written again is the same, and merging it with itself changes nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::kubeconfig::unusable;
use weaver_diagnostics::kubeconfig_export::SourceContext;
use weaver_diagnostics::kubeconfig_export::document::Document;
use weaver_diagnostics::kubeconfig_export::lint::lint;
use weaver_diagnostics::text_file::TextFile;

fuzz_target!(|text: &str| {
    let file = TextFile::new("/kubeconfig", text);
    let _ = unusable(&file, None);
    let _ = lint(&file);
    let _ = SourceContext::read(&file);
    let Ok(document) = Document::parse(&file) else { return };
    let written = document.to_yaml();
    let again = Document::parse(&TextFile::new("/again", written.clone()));
    let again = again.unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again.to_yaml(), written);
});
