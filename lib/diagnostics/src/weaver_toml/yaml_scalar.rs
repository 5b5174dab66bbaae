//! A text as a YAML scalar in double quotes, which no parser takes for
//! anything else: no number, no key, no second line.

use std::fmt::Write as _;

/// The text in double quotes; what is not printable ASCII is escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            // Writing into a String does not fail.
            _ => drop(write!(out, "\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// A list of them on one line.
pub(super) fn quoted_list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml_node::parse;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_quoted_is_read_back(text in "\\PC*|[-a-z:\\[\\]{}&*!|>'\"#%@,\\\\ \t\n\u{85}\u{2028}\u{feff}]*") {
            let list = parse(&format!("k: {}\n", quoted_list([&text, &text]))).unwrap();
            let items = list.get("k").unwrap().items();
            prop_assert_eq!(items.len(), 2);
            prop_assert_eq!(items[1].as_str(), Some(text.as_str()));
        }
    }
}
