//! Whom a program acts as.

use std::fmt;

/// A `ServiceAccount`, named.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Account {
    /// Its namespace. Take it from the object that names the account, never from its spec: else anyone who may
    /// write the spec acts as an account of another namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount {}/{}", self.namespace, self.name)
    }
}
