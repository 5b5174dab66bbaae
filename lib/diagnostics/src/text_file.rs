//! A text and the file it came from.

/// A text file that was read, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Its path, as messages name it.
    pub path: String,
    pub text: String,
}

impl TextFile {
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// The text of a file that people wrote with whatever they have: UTF-8, or UTF-16 behind its mark, as PowerShell's `>`
/// writes it; without the mark. `None` where it is neither.
pub fn decoded(bytes: &[u8]) -> Option<String> {
    match bytes {
        [0xff, 0xfe, text @ ..] => wide(text, u16::from_le_bytes),
        [0xfe, 0xff, text @ ..] => wide(text, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] | text => std::str::from_utf8(text).ok().map(str::to_owned),
    }
}

fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, []) = bytes.as_chunks() else { return None };
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_same_by_whatever_editor() {
        let text = "a: ü \u{1f347}\r\n";
        let units: Vec<u16> = text.encode_utf16().collect();
        let wide = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
            mark.into_iter().chain(units.iter().flat_map(|unit| bytes(*unit))).collect::<Vec<u8>>()
        };
        for bytes in [
            text.as_bytes().to_vec(),
            ["\u{feff}", text].concat().into_bytes(),
            wide([0xff, 0xfe], u16::to_le_bytes),
            wide([0xfe, 0xff], u16::to_be_bytes),
        ] {
            assert_eq!(decoded(&bytes).as_deref(), Some(text), "{bytes:?}");
        }
        assert_eq!(decoded(b""), Some(String::new()));
        for bytes in [&b"a\xff"[..], b"\xff\xfea", b"\xff\xfe\x00\xd8", b"\xfe\xff\xdc\x00\xd8\x00"] {
            assert_eq!(decoded(bytes), None, "{bytes:?}");
        }
    }
}
