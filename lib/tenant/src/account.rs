//! [`Account`]: the `ServiceAccount` that a program acts as.

use std::fmt;

/// A `ServiceAccount` by namespace and name; shown as `NAMESPACE/NAME`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Account {
    /// Its namespace. Take it from the object that names the account, never from its spec: else anyone who may
    /// write the spec acts as an account of another namespace.
    pub namespace: String,
    /// `metadata.name` of the `ServiceAccount`.
    pub name: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount {}/{}", self.namespace, self.name)
    }
}
