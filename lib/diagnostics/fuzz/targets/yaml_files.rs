//! YAML that others write: ingresses, cloud-init's user-data and network-config, the owner's netplan. Any text
//! is read or refused by a line, without a secret and without what a terminal obeys.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::finding_text::{self, is_unprintable};
use weaver_diagnostics::text_file::TextFile;
use weaver_diagnostics::weaver_toml::{network_config, owners_netplan, user_data};
use weaver_diagnostics::{ingress, k3d};

const SECRET: &str = "hunter2hunter2";

fuzz_target!(|text: &str| {
    let file = TextFile::new("/file", text);
    for finding in ingress::lint(&file).unwrap_or_default().findings {
        let shown = finding_text::text(&finding);
        assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
    }
    let _ = (user_data::read(&file), network_config::read(&file), owners_netplan::read(&file));
    let _ = k3d::node_filter::lint_k3s_arg(text);
    let seeded = TextFile::new("/file", format!("{text}\npassword: {SECRET}\nwifis: [{SECRET}"));
    let errors = [
        ingress::lint(&seeded).err().map(|error| error.to_string()),
        user_data::read(&seeded).err().map(|error| error.to_string()),
        network_config::read(&seeded).err().map(|error| error.to_string()),
        owners_netplan::read(&seeded).err().map(|error| error.to_string()),
    ];
    assert!(
        text.contains(SECRET) || !errors.iter().flatten().any(|error| error.contains(SECRET)),
        "{errors:?}"
    );
});
