//! Puts the pages of the book into the program.

use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let summary = docs.join("SUMMARY.md");
    writeln!(io::stdout(), "cargo:rerun-if-changed={}", summary.display())?;
    let text = fs::read_to_string(&summary)?;
    let mut pages = Vec::new();
    writeln!(pages, "&[")?;
    // `- [Title](path.md)`
    for path in text.lines().filter_map(|line| line.rsplit_once("](")?.1.strip_suffix(')')) {
        let file = docs.join(path);
        writeln!(pages, "({path:?}, include_str!({:?})),", file.to_string_lossy())?;
    }
    writeln!(pages, "]")?;
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("pages.rs"), pages)
}
