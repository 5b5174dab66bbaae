//! What a kind of ours says that asks for copies: the one form in which all that is done for it is declared.
//!
//! A kind that [`Declares`] has the reconcile of this module ([`super::reconcile`]): the same plan, the same frame, the same
//! status.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::core::object::HasStatus;
use serde::de::DeserializeOwned;
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncSpec, ConfigMapSyncStatus};
use weaver_api::validate::{SpecFault, ValidSync, validate};

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
    /// What is asked for, valid or not; `None` for an object without spec. Of its source, the kind is [`Self::source_kind`]'s.
    fn asked(&self) -> Option<Cow<'_, ConfigMapSyncSpec>>;

    /// Kind of the source and of the copies.
    fn source_kind(&self) -> ObjectKind;

    /// Kinds of which there may be copies: the source may have been of another one before.
    fn copied_kinds(&self) -> Vec<ObjectKind>;

    /// The spec in the form in which it is carried out.
    ///
    /// # Errors
    /// Every rule that is broken, in the order of the fields.
    fn valid(&self) -> Result<ValidSync, Vec<SpecFault>> {
        let valid = validate(self.asked().as_deref())?;
        Ok(ValidSync { source_kind: self.source_kind(), ..valid })
    }
}

impl Declares for ConfigMapSync {
    fn asked(&self) -> Option<Cow<'_, ConfigMapSyncSpec>> {
        self.desired().map(Cow::Borrowed)
    }

    fn source_kind(&self) -> ObjectKind {
        let source = self.desired().and_then(|spec| spec.source.as_ref());
        source.map(|source| source.kind).unwrap_or_default().into()
    }

    fn copied_kinds(&self) -> Vec<ObjectKind> {
        ObjectKind::OF_CONFIG_MAP_SYNC.to_vec()
    }
}
