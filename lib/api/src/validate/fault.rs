//! One broken rule of a spec.

/// One broken rule, as a sentence that names the field, shows the value and says what to write instead.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SpecFault {
    /// A field that the work cannot be done without. Objects that came from v1alpha1 may lack it.
    #[error("{field} is missing: {remedy}")]
    Missing {
        /// Path of the field, as the API server writes it: `spec.tokens[0].serviceAccount.name`.
        field: String,
        /// What to write there.
        remedy: &'static str,
    },
    /// A value that breaks a rule.
    #[error("{field} {fault}")]
    Broken {
        /// Path of the field, as the API server writes it: `spec.targets.namespaces[1]`.
        field: String,
        /// The value, cut where it is long, the rule and the remedy.
        fault: String,
    },
}

impl SpecFault {
    /// Path of the field.
    pub fn field(&self) -> &str {
        match self {
            SpecFault::Missing { field, .. } | SpecFault::Broken { field, .. } => field,
        }
    }
}

/// A value as a fault shows it: whole where it is short, its beginning where it is not.
pub(super) fn shown(value: &str) -> String {
    const MOST: usize = 40;
    format!("{:?}", cut(value, MOST))
}

/// `text`, or its first `most` characters and a sign that there are more.
pub(super) fn cut(text: &str, most: usize) -> String {
    let mut rest = text.chars();
    let mut kept: String = rest.by_ref().take(most).collect();
    if rest.next().is_some() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_only_where_it_is_long() {
        assert_eq!(shown(&"ä".repeat(40)), format!("{:?}", "ä".repeat(40)));
        assert_eq!(shown(&"ä".repeat(41)), format!("\"{}…\"", "ä".repeat(40)));
    }

    #[test]
    fn a_value_cannot_break_the_line_of_its_fault() {
        assert_eq!(shown("a\nb\"\u{1b}"), r#""a\nb\"\u{1b}""#);
    }
}
