//! Puts the pages of the book into the programs.

use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // As this run has it: one target directory may serve several checkouts.
    let package = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let docs = Path::new(&package).join("../../docs");
    let summary = docs.join("SUMMARY.md");
    writeln!(io::stdout(), "cargo:rerun-if-changed={}", summary.display())?;
    let mut parts = Vec::new();
    write!(parts, "&[")?;
    for (at, line) in fs::read_to_string(&summary)?.lines().enumerate() {
        if let Some(part) = line.strip_prefix("# ") {
            // The first heading is that of the table itself.
            let (end, title) = if at == 0 { ("", "") } else { ("]),", part) };
            write!(parts, "{end}({title:?}, &[")?;
        // `- [Title](path.md)`
        } else if let Some((title, path)) = line.strip_suffix(')').and_then(|link| link.rsplit_once("](")) {
            let (title, file) = (title.trim_start_matches(['-', ' ', '[']), docs.join(path));
            write!(
                parts,
                "Page {{ path: {path:?}, title: {title:?}, text: include_str!({:?}) }},",
                file.to_string_lossy()
            )?;
        }
    }
    write!(parts, "])]")?;
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("parts.rs"), parts)
}
