//! The kinds of break, in words, and what to do about each.

use std::fmt;

/// What happened to a definition, a version or a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SchemaChange {
    /// The definition is not among the new ones.
    DefinitionGone,
    /// Group, scope, kind or another name is a different one.
    Renamed {
        what: &'static str,
        /// In the older definition.
        was: String,
        /// In the newer one.
        is: String,
    },
    /// A short name or a category, which people type, is gone.
    NameGone {
        /// Which of the two.
        what: &'static str,
        name: String,
    },
    /// A version that was served or stored is gone.
    VersionGone,
    /// A version that was served is there and not served.
    VersionNotServed,
    /// `status` came (what clients write there with the object is now dropped) or went, or `scale` went or is
    /// about other fields.
    Subresource {
        /// Which of the two.
        name: &'static str,
        /// As it was in the older definition.
        was: Option<String>,
        /// As it is in the newer one.
        is: Option<String>,
    },
    /// Lists and watches cannot be narrowed by the field any more.
    NotSelectable,
    /// The field is not described any more; mostly, what is written there is then dropped.
    FieldGone,
    /// The field may not be left out any more.
    FieldRequired,
    /// The field has values of another type.
    TypeChanged {
        /// Type in the older definition.
        was: String,
        /// Type in the newer one.
        is: String,
    },
    /// Fields that are not described were kept here and are now dropped.
    OthersDropped,
    /// A limit became tighter, was added, or was replaced by one that cannot be compared with it.
    Tightened {
        /// The keyword, as it is in the definition.
        keyword: &'static str,
        was: Option<String>,
        is: Option<String>,
    },
    /// A value of an enumeration is not accepted any more.
    ValueGone {
        /// The value, as JSON.
        value: String,
    },
    /// A CEL rule that was not there, or not on creation (`optionalOldSelf`).
    RuleAdded { rule: String },
    /// Objects that leave the field out mean something else than before.
    DefaultChanged {
        /// The older default, as JSON.
        was: Option<String>,
        is: Option<String>,
    },
}

impl SchemaChange {
    /// What to do so that nothing breaks, as a clause.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::DefinitionGone => "keep it until no object and no client of it is left",
            Self::Renamed { .. } => "keep the old value; another value needs a new CRD",
            Self::NameGone { .. } => "keep it next to any new ones",
            Self::VersionGone => {
                "keep it, with `served: false` once no client asks for it, until status.storedVersions \
                 does not list it"
            }
            Self::VersionNotServed => "serve it, with `deprecated: true`, until no client asks for it",
            Self::Subresource { .. } => "keep it as it was, and change it in a new version",
            Self::NotSelectable => "keep it in selectableFields",
            Self::FieldGone => "keep it, described as deprecated, and leave it out in a new version",
            Self::FieldRequired => "keep it optional, and require it in a new version",
            Self::TypeChanged { .. } => {
                "keep the type, and add another field or a new version with the other type"
            }
            Self::OthersDropped => {
                "keep them with x-kubernetes-preserve-unknown-fields, and drop them in a new version"
            }
            Self::Tightened { .. } => "accept what was accepted, and be stricter in a new version",
            Self::ValueGone { .. } => "keep accepting it, and leave it out in a new version",
            Self::RuleAdded { .. } => {
                "state it in a new version, unless every object that was accepted keeps it"
            }
            Self::DefaultChanged { .. } => "keep the default, and choose another in a new version",
        }
    }
}

impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_absent = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
        match self {
            Self::DefinitionGone => f.write_str("the definition is gone"),
            Self::Renamed { what, was, is } => write!(f, "{what} was {was}, is {is}"),
            Self::NameGone { what, name } => write!(f, "{what} {name} is gone"),
            Self::VersionGone => f.write_str("the version is gone"),
            Self::VersionNotServed => f.write_str("the version is not served any more"),
            Self::Subresource { name, was, is } => {
                write!(f, "subresource {name} was {}, is {}", or_absent(was), or_absent(is))
            }
            Self::NotSelectable => f.write_str("the field cannot be selected by any more"),
            Self::FieldGone => f.write_str("the field is gone"),
            Self::FieldRequired => f.write_str("the field is now required"),
            Self::TypeChanged { was, is } => write!(f, "type was {was}, is {is}"),
            Self::OthersDropped => f.write_str("fields that are not described were kept, are dropped"),
            Self::Tightened { keyword, was, is } => {
                write!(f, "{keyword} was {}, is {}", or_absent(was), or_absent(is))
            }
            Self::ValueGone { value } => write!(f, "value {value} is not accepted any more"),
            Self::RuleAdded { rule } => write!(f, "rule is new: {rule}"),
            Self::DefaultChanged { was, is } => {
                write!(f, "default was {}, is {}", or_absent(was), or_absent(is))
            }
        }
    }
}
