//! weaver.toml: read whole or refused by line; a token that was blanked is gone, and every other byte is as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::weaver_toml::parse;

fuzz_target!(|file: &[u8]| match parse(file) {
    Err(faults) => assert!(!faults.is_empty()),
    Ok(read) => {
        let Some(blanked) = read.blanked(file) else { return };
        assert!(blanked.len() <= file.len() + 2);
        let again = parse(&blanked).unwrap_or_else(|faults| panic!("{faults:?}"));
        assert!(again.blanked(&blanked).is_none_or(|twice| twice == blanked));
    }
});
