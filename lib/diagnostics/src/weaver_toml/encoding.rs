//! A `user-data` or `network-config` that an editor of Windows has saved as UTF-16: cloud-init reads UTF-8 only.

use std::path::Path;

use crate::{
    finding::{Code, Finding, Place, Remedy},
    text_file::TextFile,
};

/// cloud-init's files next to `weaver.toml` that are UTF-16. `read` is the text of one, with what is no UTF-8 replaced.
pub fn lint(weaver_toml: &Path, read: impl Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let files = [("network-config", Code::NetworkConfigFault), ("user-data", Code::UserDataFault)];
    let wide = |(name, code): (&str, Code)| {
        let path = weaver_toml.with_file_name(name);
        utf16(&TextFile::new(path.display().to_string(), read(&path)?), code)
    };
    files.into_iter().filter_map(wide).collect()
}

fn utf16(file: &TextFile, code: Code) -> Option<Finding> {
    let text = file.text.strip_prefix("\u{fffd}\u{fffd}").unwrap_or(&file.text);
    let begin: Vec<bool> = text.chars().take(8).map(|c| c == '\0').collect();
    // Of ASCII each second byte is NUL.
    if begin.len() < 4 || !begin.windows(2).all(|pair| pair[0] != pair[1]) {
        return None;
    }
    let what = "the file is saved as UTF-16, which cloud-init cannot read, so none of it is in force";
    let finding = Finding::at(code, Place::line(&file.path, 1), what);
    Some(finding.remedy(Remedy::new("save it as UTF-8, without a byte order mark (BOM)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_is_recognised_with_and_without_its_mark() {
        let of = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            utf16(&TextFile::new("/n", text), Code::NetworkConfigFault).map(|finding| finding.message)
        };
        for order in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
            for text in ["\u{feff}network:\r\n  version: 2\r\n", "#cloud-config\n"] {
                let bytes: Vec<u8> = text.encode_utf16().flat_map(order).collect();
                let message = of(&bytes).unwrap();
                assert!(message.starts_with("/n:1: the file is saved as UTF-16"), "{message}");
            }
        }
        for bytes in [
            &b""[..],
            b"\0",
            b"network:\n",
            b"\xef\xbb\xbfnetwork:\n",
            b"ssid: \xfc\n",
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
            b"\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(of(bytes), None, "{bytes:?}");
        }
    }
}
