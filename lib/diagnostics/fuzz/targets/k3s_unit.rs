//! k3s' unit with its drop-ins and environment files.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::k3s_config::merge;
use weaver_diagnostics::k3s_unit::{environment_files, flags, variable};
use weaver_diagnostics::text_file::TextFile;

fuzz_target!(|texts: (&str, &str)| {
    let units = [TextFile::new("/k3s.service", texts.0)];
    let environment = [TextFile::new("/k3s.env", texts.1)];
    let _ = environment_files(&units);
    let _ = variable(&units, &environment, "K3S_CONFIG_FILE");
    let _ = merge(&[], &flags(&units, &environment));
});
