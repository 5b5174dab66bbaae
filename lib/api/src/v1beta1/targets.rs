//! Where copies go, and what they carry in addition.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::selector::Selector;
use crate::names::{
    LABEL_MAX, LABEL_PATTERN, PREFIX_PATTERN, SUBDOMAIN_MAX, SUBDOMAIN_PATTERN, SUFFIX_PATTERN,
};
use crate::pattern::NAME_PATTERN;
use crate::schema;

/// Where the copies go and what they are called.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Targets {
    /// Names of namespaces that receive a copy, each once, at most 1000. Namespaces that do not exist yet get their
    /// copy when they are created. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1_000),
        inner(length(min = 1, max = LABEL_MAX), regex(pattern = LABEL_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub namespaces: Vec<String>,

    /// Namespaces whose name matches a pattern such as `app-*` receive a copy too. `*` stands for any number of
    /// characters, `?` for one, and each pattern has at least one of them. Each once, at most 32, of at most 63
    /// characters. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(min = 1, max = LABEL_MAX), regex(pattern = NAME_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub patterns: Vec<String>,

    /// Namespaces with these labels receive a copy too. An empty selector selects every namespace. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,

    /// Names of namespaces that receive none, whatever the three above say; each once, at most 1000. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1_000),
        inner(length(min = 1, max = LABEL_MAX), regex(pattern = LABEL_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub exclude: Vec<String>,

    /// Name of the copies: a DNS subdomain of at most 253 characters. Not with `namePrefix` and `nameSuffix`; nor with
    /// `source.selector`, but where sources are merged, which needs it. Default, and the meaning of null: the name of
    /// the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: Option<String>,

    /// Prefix of the copy's name, added to the name of the source: at most 63 characters. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LABEL_MAX), regex(pattern = PREFIX_PATTERN))]
    pub name_prefix: Option<String>,

    /// Suffix of the copy's name, added to the name of the source: at most 63 characters. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LABEL_MAX), regex(pattern = SUFFIX_PATTERN))]
    pub name_suffix: Option<String>,

    /// Labels that the copies have in addition to the source's, at most 32; values of at most 63 characters. Keys of
    /// Kubernetes' own, of this operator's and of tools that track what they deploy are refused. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "additionalProperties" = {"type": "string", "maxLength": 63, "pattern": schema::LABEL_VALUE_PATTERN},
        "x-kubernetes-validations" = [schema::no_reserved_key()],
    ))]
    pub labels: BTreeMap<String, String>,

    /// Annotations that the copies have in addition to the source's, at most 32; values of at most 4096 characters. The
    /// same keys are refused. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "additionalProperties" = {"type": "string", "maxLength": 4096},
        "x-kubernetes-validations" = [schema::no_reserved_key()],
    ))]
    pub annotations: BTreeMap<String, String>,
}

impl Targets {
    /// Are there targets that it does not name?
    pub fn has_selection(&self) -> bool {
        self.selector.is_some() || !self.patterns.is_empty()
    }
}
