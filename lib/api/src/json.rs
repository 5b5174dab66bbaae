//! What JSON holds, by its text: in memory a value takes many times that, so it is counted before it is parsed.

/// The bytes of JSON that are in no text: those that begin, separate and end values, and numbers.
pub fn outside_texts(json: &str) -> impl Iterator<Item = u8> {
    let (mut is_text, mut is_escaped) = (false, false);
    json.bytes().filter(move |byte| {
        let is_outside = !is_text;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            _ => {}
        }
        is_outside
    })
}
