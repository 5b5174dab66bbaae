//! One version of a kind, as conversion sees it.

use serde_json::Value;

use super::conditions::Derived;
use super::fields::Spec;

/// The deprecated version, which is still served.
pub(super) const OLD: &str = "v1alpha1";
/// The version at which objects are stored.
pub(super) const NEW: &str = "v1beta1";

/// One version of a kind.
pub(super) struct KindVersion {
    pub kind: &'static str,
    /// Its version, without the group: [`OLD`] or [`NEW`].
    pub version: &'static str,
    /// Splits a spec of this version.
    pub split: fn(&Spec) -> Split,
    /// Puts hidden fields of this version into a spec of it; returns those that have another type there.
    pub put: fn(&mut Spec, Spec) -> Spec,
    /// May a round-trip annotation restore this exact form in this field?
    pub form: fn(&str, &Value) -> bool,
    /// Fills in the defaults of this version's schema that [`KindVersion::split`] could see.
    pub fill: fn(&mut Spec),
    /// Fields of a status that the other version does not have and that cannot be computed again; all are strings.
    pub status: &'static [&'static str],
    /// Conditions that only this version shows.
    pub conditions: &'static [Derived],
}

/// A split spec. Equal parts have equal meaning.
#[derive(Debug, PartialEq)]
pub(super) struct Split {
    /// What the other version can show, in its form.
    pub visible: Spec,
    /// What the other version cannot show, in the form of this one.
    pub hidden: Spec,
}
