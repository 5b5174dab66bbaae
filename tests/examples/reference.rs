//! Writes the pages of docs/reference/ that are made from the programs, for `make generate`.

use std::path::Path;

/// From the programs that were built next to it.
fn main() -> std::io::Result<()> {
    let program = std::env::current_exe()?;
    let examples = program.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    for (path, page) in weaver_tests::reference::pages(examples) {
        std::fs::write(path, page)?;
    }
    Ok(())
}
