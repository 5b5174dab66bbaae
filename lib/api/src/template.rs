//! Templates of what is generated in a number: `{{n}}` is the index from 1 on, `{{padded}}` the same with
//! zeros before it, of three digits, `{{hash}}` eight hexadecimal digits that look random and are the same
//! each time.
//!
//! There is nothing else in a template: no condition, no arithmetic, no other placeholder. None of the three
//! becomes longer than it is written, so a limit of the template is one of the text. Each index gives another
//! text where one of the first two is in it; two hashes may be equal.

use sha2::{Digest as _, Sha256};

/// The index, from 1 on.
const INDEX: &str = "{{n}}";
/// The index of three digits, so that texts keep their length and their order whatever the count.
const PADDED: &str = "{{padded}}";
/// Eight digits of a hash.
const HASH: &str = "{{hash}}";

/// A template of a DNS label.
pub const NAME_TEMPLATE: &str = r"^([a-z0-9]|\{\{(n|padded|hash)\}\})(([-a-z0-9]|\{\{(n|padded|hash)\}\})*([a-z0-9]|\{\{(n|padded|hash)\}\}))?$";

/// A template of a key of a Secret.
pub const KEY_TEMPLATE: &str =
    r"^\.?([-_a-zA-Z0-9]|\{\{(n|padded|hash)\}\})([-._a-zA-Z0-9]|\{\{(n|padded|hash)\}\})*$";

/// A template of the value of a label.
pub const LABEL_TEMPLATE: &str = r"^(([A-Za-z0-9]|\{\{(n|padded|hash)\}\})(([-A-Za-z0-9_.]|\{\{(n|padded|hash)\}\})*([A-Za-z0-9]|\{\{(n|padded|hash)\}\}))?)?$";

/// A template of any text: no two `{` but those of a placeholder.
pub const TEXT_TEMPLATE: &str = r"^([^{]|\{\{(n|padded|hash)\}\}|\{([^{]|\{\{(n|padded|hash)\}\}))*\{?$";

/// A text with placeholders. It was checked where it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template(String);

impl Template {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text for index `n`, which has this [`hash`].
    pub fn render(&self, n: u16, hash: &str) -> String {
        self.0.replace(INDEX, &n.to_string()).replace(PADDED, &format!("{n:03}")).replace(HASH, hash)
    }
}

/// `text` with a digit for each placeholder: right where all that may be rendered is. No digit is in a placeholder, so
/// none comes to be.
pub fn sample(text: &str) -> String {
    [INDEX, PADDED, HASH].iter().fold(text.to_owned(), |text, placeholder| text.replace(placeholder, "0"))
}

/// Does each index give another text?
pub fn is_unique_per_index(text: &str) -> bool {
    text.contains(INDEX) || text.contains(PADDED)
}

/// What `{{hash}}` is at index `n` of the resource `NAMESPACE/NAME`: the beginning of the SHA-256 of
/// `NAMESPACE/NAME/n`.
pub fn hash(resource: &str, n: u16) -> String {
    let digest = format!("{:x}", Sha256::digest(format!("{resource}/{n}")));
    digest.chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_index_padded_index_and_hash() {
        let rendered = |text: &str, n| Template::new(text).render(n, &hash("team-a/bots", n));
        for (text, n, expected) in [
            ("bot-{{n}}", 7, "bot-7"),
            ("bot-{{n}}", 500, "bot-500"),
            ("bot-{{padded}}", 7, "bot-007"),
            ("{{n}}{{n}}-{{padded}}", 12, "1212-012"),
            ("plain", 1, "plain"),
            ("a { b } {{n}}", 1, "a { b } 1"),
        ] {
            assert_eq!(rendered(text, n), expected);
        }
        assert_eq!(rendered("x-{{hash}}", 7), format!("x-{}", hash("team-a/bots", 7)));
        // printf %s team-a/bots/7 | sha256sum | cut -c1-8
        assert_eq!(hash("team-a/bots", 7), "c20e9deb");
        assert_ne!(hash("team-a/bots", 7), hash("team-b/bots", 7));
        assert_ne!(hash("team-a/bots", 7), hash("team-a/bots", 8));
    }

    #[test]
    fn an_index_gives_five_hundred_texts_and_none_is_longer_than_its_template() {
        for text in
            ["{{n}}", "a{{n}}1", "1{{n}}", "{{n}}{{n}}", "{{padded}}", "{{hash}}{{n}}", "{{n}}0{{padded}}"]
        {
            let template = Template::new(text);
            let all: std::collections::BTreeSet<String> =
                (1..=500).map(|n| template.render(n, &hash("a/b", n))).collect();
            assert_eq!(all.len(), 500, "{text}");
            assert!(all.iter().all(|rendered| rendered.len() <= text.len()), "{text}");
            assert!(is_unique_per_index(text));
        }
        assert!(
            !is_unique_per_index("{{hash}}")
                && !is_unique_per_index("{n}")
                && !is_unique_per_index("{{ n }}")
        );
    }

    #[test]
    fn no_placeholder_is_made_of_another() {
        for text in ["{{p{{n}}dded}}", "{{h{{padded}}sh}}", "{{{{n}}}}", "{{N}}", "{{ n }}", "{{m}}"] {
            assert!(sample(text).contains("{{"), "{text}");
        }
        assert_eq!(sample("a-{{n}}-{{padded}}-{{hash}}"), "a-0-0-0");
    }
}
