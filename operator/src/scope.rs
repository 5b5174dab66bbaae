//! Which namespaces this operator serves: all, or some. Pure.

use std::collections::BTreeSet;
use std::str::FromStr;

use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::names::dns_label;

/// Most namespaces that may be named: each has four watches of its own.
const MOST: usize = 100;

/// The namespaces whose resources are reconciled, and which may have copies.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum OperatorScope {
    #[default]
    Everywhere,
    /// These. The operator has no rights of its own in any other.
    Only(BTreeSet<String>),
}

impl OperatorScope {
    /// Is this namespace among them?
    pub fn serves(&self, namespace: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Only(names) => names.contains(namespace),
        }
    }

    /// Where to watch our kinds; `None`: everywhere at once.
    pub fn resource_namespaces(&self) -> Vec<Option<String>> {
        match self {
            Self::Everywhere => vec![None],
            Self::Only(names) => names.iter().cloned().map(Some).collect(),
        }
    }

    /// The same for namespaces themselves. The operator's own is always among them: it says whether everything
    /// is paused.
    pub fn namespaces(&self) -> Vec<Option<String>> {
        let mut namespaces = self.resource_namespaces();
        if *self != Self::Everywhere && !self.serves(OPERATOR_NAMESPACE) {
            namespaces.push(Some(OPERATOR_NAMESPACE.to_owned()));
        }
        namespaces
    }
}

impl FromStr for OperatorScope {
    type Err = String;

    /// Reads names with commas between; nothing means everywhere.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::Everywhere);
        }
        let mut names = BTreeSet::new();
        for name in text.split(',').map(str::trim) {
            dns_label(name).map_err(|fault| format!("{name:?} is not a valid namespace name: {fault}"))?;
            names.insert(name.to_owned());
        }
        if names.len() > MOST {
            return Err(format!("{} namespaces; for more than {MOST} omit the flag", names.len()));
        }
        Ok(Self::Only(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_from_names_with_commas_between() {
        let some: OperatorScope = "team-b, team-a".parse().unwrap();
        assert!(some.serves("team-a") && !some.serves("team-c") && !some.serves(OPERATOR_NAMESPACE));
        assert_eq!(some.resource_namespaces(), [Some("team-a".to_owned()), Some("team-b".to_owned())]);
        let namespaces = some.namespaces();
        assert_eq!((namespaces.len(), namespaces[2].as_deref()), (3, Some(OPERATOR_NAMESPACE)));
        let own: OperatorScope = OPERATOR_NAMESPACE.parse().unwrap();
        assert_eq!(own.namespaces().len(), 1);
        let all: OperatorScope = " ".parse().unwrap();
        assert!(all.serves("team-c"));
        assert_eq!((all.resource_namespaces(), all.namespaces()), (vec![None], vec![None]));
    }

    #[test]
    fn what_is_no_name_is_named() {
        for (text, message) in [
            ("team-a,,team-b", "\"\" is not a valid namespace name"),
            ("*", "\"*\" is not a valid namespace name"),
            ("Team", "\"Team\" is not a valid namespace name"),
        ] {
            let error = text.parse::<OperatorScope>().unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let many: Vec<String> = (0..101).map(|number| format!("n{number}")).collect();
        assert!(many.join(",").parse::<OperatorScope>().unwrap_err().contains("101 namespaces"));
    }
}
