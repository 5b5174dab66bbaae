//! Values of one kind, as Go and YAML read them. Pure.

/// As Go reads it, and as YAML writes it.
pub(super) fn is_bool(text: &str) -> bool {
    let yaml = ["y", "yes", "n", "no", "on", "off", "true", "false"];
    is_go_bool(text) || yaml.contains(&text.to_ascii_lowercase().as_str())
}

pub(super) fn is_go_bool(text: &str) -> bool {
    let words = ["1", "0", "t", "f", "T", "F", "true", "false", "TRUE", "FALSE", "True", "False"];
    words.contains(&text)
}

pub(super) fn is_int(text: &str) -> bool {
    let text = text.trim().trim_start_matches(['-', '+']).replace('_', "");
    let radix = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2), ("", 10)];
    radix.into_iter().any(|(start, radix)| {
        text.strip_prefix(start).is_some_and(|digits| i64::from_str_radix(digits, radix).is_ok())
    })
}

/// As Go reads it: numbers, each with its unit.
pub(super) fn is_duration(text: &str) -> bool {
    let mut rest = text.trim().trim_start_matches(['-', '+']);
    if rest == "0" {
        return true;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().any(|byte| byte.is_ascii_digit());
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let unit = ["ns", "us", "µs", "μs", "ms", "h", "m", "s"];
        let Some(after) = unit.iter().find_map(|unit| after.strip_prefix(unit)) else { return false };
        if !is_number(number) || number.matches('.').count() > 1 {
            return false;
        }
        rest = after;
    }
    !text.trim().is_empty()
}
