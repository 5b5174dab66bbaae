//! What other programs answer: findings of an agent, lists of hashes, versions, the head of a program, the record of an
//! upgrade.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::finding_text::{self, clean_json, is_unprintable};
use weaver_diagnostics::k3s_upgrade::record::UpgradeRecord;
use weaver_diagnostics::k3s_upgrade::version::Version;
use weaver_diagnostics::k3s_upgrade::{program, release};

fuzz_target!(|bytes: &[u8]| {
    let _ = program::judge(bytes, "aarch64");
    let text = &*String::from_utf8_lossy(bytes);
    assert!(release::hash_in(text, &["k3s-arm64", "k3s"]).is_none_or(|hash| hash.len() == 64));
    let _ = (Version::of_output(text), serde_json::from_slice::<UpgradeRecord>(bytes));
    if let Ok(finding) = serde_json::from_slice::<Finding>(bytes) {
        let json = clean_json(&serde_json::to_string_pretty(&finding).expect("a finding"));
        for shown in [finding_text::text(&finding), json] {
            assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
        }
    }
});
