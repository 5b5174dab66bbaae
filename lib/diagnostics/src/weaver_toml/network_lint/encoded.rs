//! Names of networks that stand in the file otherwise than they are meant. Pure.

use crate::yaml_node::{PRINTED_QUOTES, YamlNode};

/// Bytes from 0x80 on as Windows shows them, where it shows them otherwise than Latin 1.
const OF_WINDOWS: &str = "€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ";

/// What a name was before each byte of its UTF-8 was taken for a character.
pub(super) fn encoded_twice(name: &str) -> Option<String> {
    // A quote, a dash or an emoji: else a name can have such a sign as it is.
    let is_of_windows = name.contains("â€") || name.contains("ðŸ");
    let byte = |c: char| match OF_WINDOWS.chars().zip(0x80_u8..).find(|(shown, _)| *shown == c && c != '\0') {
        Some((_, byte)) if is_of_windows => Some(byte),
        _ => u8::try_from(u32::from(c)).ok(),
    };
    shown(name.chars().map(byte).collect::<Option<Vec<u8>>>()?)
}

/// What a name means whose bytes stand there as `\xHH`, and not in double quotes.
pub(super) fn unescaped(name: &str) -> Option<String> {
    let (first, rest) = name.split_once("\\x").filter(|_| name.is_ascii())?;
    let mut bytes = first.as_bytes().to_vec();
    for part in rest.split("\\x") {
        let (byte, after) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(byte, 16).ok()?);
        bytes.extend(after.as_bytes());
    }
    shown(bytes)
}

/// As text, if it is some and not of ASCII alone.
fn shown(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok().filter(|text| !text.is_ascii())?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// Whether it is in quotes that are a part of it.
pub(super) fn in_printed_quotes(node: &YamlNode) -> bool {
    node.as_str().is_some_and(|text| text.starts_with(PRINTED_QUOTES) && text.ends_with(PRINTED_QUOTES))
}
