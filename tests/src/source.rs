//! What a Rust source says: read as text, well enough for sources of our own.

/// The source without its unit tests.
pub fn code(source: &str) -> &str {
    source.split("#[cfg(test)]").next().unwrap_or_default()
}

/// The string literals of code that begin and end on one line; comments have none.
pub fn texts(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_code_alone() {
        let source =
            "f(\"a\", \"b c\");\n    // \"no\"\n#[cfg(test)]\nmod tests { const X: &str = \"no\"; }\n";
        assert_eq!(texts(code(source)).collect::<Vec<_>>(), ["a", "b c"]);
    }
}
