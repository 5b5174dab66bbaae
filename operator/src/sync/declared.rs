//! What a kind of ours says that asks for copies: the one form in which all that is done for it is declared.
//!
//! A kind that [`Declares`] has the reconcile of this module ([`super::reconcile`]): the same plan, the same frame, the
//! same status.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::core::object::HasStatus;
use serde::de::DeserializeOwned;
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncSpec, ConfigMapSyncStatus, ResourceSync};
use weaver_api::validate::{KindName, SpecFault, ValidSync, validate, validate_resource};

/// A kind of ours that asks for copies.
pub trait Declares:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status = ConfigMapSyncStatus>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The kind, as `weaver` calls it.
    const WORD: &'static str;

    /// What is asked for, valid or not; `None` for an object without spec. Of its source, the kind is not said there.
    fn asked(&self) -> Option<Cow<'_, ConfigMapSyncSpec>>;

    /// Kind of the source and of the copies, valid or not.
    fn names_kind(&self) -> NamedKind;

    /// The spec, if it keeps all rules.
    ///
    /// # Errors
    /// Every rule that is broken, in the order of the fields.
    fn valid(&self) -> Result<Declared, Vec<SpecFault>>;
}

/// Words about a resource of the kind `K`. They are written for a `ConfigMapSync`; what copies other kinds, and whose
/// copy of such a kind is in the way, is a `ResourceSync`.
pub fn message_of_kind<K: Declares>(message: &str) -> Cow<'_, str> {
    let (usual, kind) = (ConfigMapSync::kind(&()), K::kind(&()));
    if kind == usual { message.into() } else { message.replace(&*usual, &kind).into() }
}

/// A kind, as a spec names it.
#[derive(Clone, Debug)]
pub enum NamedKind {
    /// Each API server serves it.
    Served(ObjectKind),
    /// The API server may serve it.
    Named(KindName),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Declared {
    pub kind: NamedKind,
    /// Its kind counts for nothing.
    spec: ValidSync,
}

impl Declared {
    /// In the form that the operator executes, where the API server serves its kind as `kind`.
    pub fn of(self, kind: ObjectKind) -> ValidSync {
        ValidSync { source_kind: kind, ..self.spec }
    }

    /// Is nothing to be done?
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend
    }

    /// The account, in the resource's own namespace.
    pub fn account(&self) -> &str {
        &self.spec.account
    }
}

impl Declares for ConfigMapSync {
    const WORD: &'static str = "sync";

    fn asked(&self) -> Option<Cow<'_, ConfigMapSyncSpec>> {
        self.desired().map(Cow::Borrowed)
    }

    fn names_kind(&self) -> NamedKind {
        let source = self.desired().and_then(|spec| spec.source.as_ref());
        NamedKind::Served(source.map(|source| source.kind).unwrap_or_default().into())
    }

    fn valid(&self) -> Result<Declared, Vec<SpecFault>> {
        Ok(Declared { kind: self.names_kind(), spec: validate(self.desired())? })
    }
}

impl Declares for ResourceSync {
    const WORD: &'static str = "resource";

    fn asked(&self) -> Option<Cow<'_, ConfigMapSyncSpec>> {
        self.desired().map(|spec| Cow::Owned(spec.clone().into()))
    }

    fn names_kind(&self) -> NamedKind {
        let source = self.desired().and_then(|spec| spec.source.clone()).unwrap_or_default();
        let version = source.api_version.unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let kind = source.kind.unwrap_or_default();
        NamedKind::Named(KindName { group: group.to_owned(), version: version.to_owned(), kind })
    }

    fn valid(&self) -> Result<Declared, Vec<SpecFault>> {
        // Its kind is not known yet.
        let spec = validate_resource(self.desired())?.of(ObjectKind::served("", "", "", ""));
        Ok(Declared { kind: self.names_kind(), spec })
    }
}
