//! Names in an initramfs: segments of newc cpio, the first as it is, the last compressed by zstd.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::tools::cannot_start;

const MAGIC: &[u8] = b"070701";
const HEADER: usize = 110;
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The names of all files in all segments.
///
/// # Errors
/// When it is neither cpio nor compressed in a known format, or ends early.
pub fn names(path: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(path).context("cannot read it")?;
    let mut names = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(start) = rest.iter().position(|byte| *byte != 0) {
        rest = &rest[start..];
        if rest.starts_with(&ZSTD) {
            let unpacked = unzstd(rest)?;
            walk(&unpacked, &mut names)?;
            break;
        }
        rest = &rest[walk(rest, &mut names)?..];
    }
    Ok(names)
}

/// Adds the names of one segment and returns its length.
fn walk(segment: &[u8], names: &mut Vec<String>) -> Result<usize> {
    let mut at = 0;
    loop {
        let Some(header) = segment.get(at..at + HEADER) else { bail!("it ends inside a header") };
        if !header.starts_with(MAGIC) {
            bail!("there is no cpio header at byte {at} of a segment");
        }
        let number = |field: usize| {
            let digits = &header[6 + 8 * field..14 + 8 * field];
            std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text, 16).ok())
        };
        let (Some(size), Some(name_size)) = (number(6), number(11)) else { bail!("a header has no sizes") };
        let name_at = at + HEADER;
        let Some(name) = segment.get(name_at..name_at + name_size) else { bail!("it ends inside a name") };
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        at = (name_at + name_size).next_multiple_of(4) + size.next_multiple_of(4);
        if name == "TRAILER!!!" {
            return Ok(at.min(segment.len()));
        }
        names.push(name);
    }
}

fn unzstd(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = tempfile::tempfile().context("making a temporary file")?;
    packed.write_all(bytes)?;
    std::io::Seek::rewind(&mut packed)?;
    let mut command = Command::new("zstd");
    command.args(["-q", "-d", "-c"]).stdin(packed).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| cannot_start(&command, error))?;
    if !output.status.success() {
        bail!("zstd cannot unpack it: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, data) in files.iter().copied().chain([("TRAILER!!!", &b""[..])]) {
            let mut fields = [0; 13];
            (fields[6], fields[11]) = (data.len(), name.len() + 1);
            out.extend(MAGIC);
            out.extend(fields.iter().flat_map(|value| format!("{value:08X}").into_bytes()));
            out.extend(name.as_bytes());
            out.push(0);
            out.resize(out.len().next_multiple_of(4), 0);
            out.extend(data);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    #[test]
    fn segments_follow_each_other_after_padding() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = segment(&[("a", b"12345"), ("b/c", b"")]);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes.extend(segment(&[("d", b"x")]));
        fs::write(file.path(), &bytes).unwrap();
        assert_eq!(names(file.path()).unwrap(), ["a", "b/c", "d"]);
        for cut in [1, 60, 112, 130] {
            fs::write(file.path(), &bytes[..cut]).unwrap();
            assert!(names(file.path()).is_err(), "cut at {cut}");
        }
    }
}
