//! The sources of one resource, as its tenant sees them: which there are, and what their copies should be.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use weaver_api::names::SUBDOMAIN_MAX;
use weaver_api::ownership::Owner;
use weaver_api::validate::{Sources, ValidSync};
use weaver_client::call::{CallError, lookup};
use weaver_client::pages::each_page;
use weaver_tenant::TenantClient;

use super::execute::{in_time, look, whole};
use super::outcome::{SourceState, Unlisted};
use weaver_copies::content::Content;
use weaver_copies::copy::{DesiredCopy, source_reference};
use weaver_copies::kinds::metadata_of;
use weaver_copies::metadata::Metadata;
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::sources::{MAX_COPIES, MAX_SOURCES, may_be_source, query};

/// Which sources there are.
#[derive(Default)]
pub struct ListedSources {
    pub names: BTreeSet<String>,
    /// Why they are not known. Then there are no names.
    pub unlisted: Option<Unlisted>,
}

impl ListedSources {
    /// Nothing, where there would be too many copies for `targets` namespaces.
    #[must_use]
    pub fn bounded(self, spec: &ValidSync, targets: usize) -> Self {
        let sources = self.names.len();
        if spec.merge.is_some() || sources < 2 || sources * targets <= MAX_COPIES {
            return self;
        }
        Self { unlisted: Some(Unlisted::TooManyCopies { sources, targets }), ..Self::default() }
    }
}

/// Those that are named, whether they are there or not; or those that are selected.
pub async fn list(tenant: &TenantClient, spec: &ValidSync) -> ListedSources {
    let selector = match &spec.sources {
        Sources::Named(_) | Sources::Listed(_) => {
            return ListedSources { names: spec.source_names().iter().cloned().collect(), unlisted: None };
        }
        Sources::Selected(selector) => selector,
    };
    let objects: Api<PartialObjectMeta<Object>> =
        tenant.namespaced(&spec.source_kind, &spec.source_namespace);
    let unlisted = match in_time("the list of the sources", names(&objects, &query(selector))).await {
        Ok(names) if names.len() <= MAX_SOURCES => return ListedSources { names, unlisted: None },
        Ok(_) => Unlisted::TooMany,
        Err(CallError::Forbidden(status)) => Unlisted::Forbidden(status.message),
        Err(error) => Unlisted::Failed(error.to_string()),
    };
    ListedSources { unlisted: Some(unlisted), ..ListedSources::default() }
}

/// All, or more than there may be.
async fn names(objects: &Api<PartialObjectMeta<Object>>, query: &str) -> Result<BTreeSet<String>, CallError> {
    let mut found = BTreeSet::new();
    each_page(objects, query, |page| {
        found.extend(page.into_iter().filter(may_be_source).filter_map(|meta| meta.name));
        if found.len() > MAX_SOURCES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await?;
    Ok(found)
}

fn is_selected(spec: &ValidSync, meta: &ObjectMeta) -> bool {
    match &spec.sources {
        Sources::Named(_) | Sources::Listed(_) => true,
        Sources::Selected(selector) => {
            may_be_source(meta) && selector.matches(&meta.labels.clone().unwrap_or_default())
        }
    }
}

/// Sources that are read at once; each may have a megabyte.
pub const READS: usize = 2;

/// Of each source the versions that the watch showed before it was read, and that was read.
pub type Versions = Vec<(String, [Option<String>; 2])>;

/// What was read of the source, and what is copied of it.
pub struct SourceRead {
    pub source: SourceState,
    /// The resourceVersion that was read.
    pub version: Option<String>,
    pub absent_keys: Vec<String>,
    /// With the metadata of the source.
    pub content: Option<(Content, ObjectMeta)>,
}

impl SourceRead {
    /// There is nothing to copy.
    pub fn nothing(source: SourceState) -> Self {
        Self { source, version: None, absent_keys: Vec::new(), content: None }
    }
}

/// The copy of the source `name`, of which this was read.
pub fn copy(
    spec: &ValidSync,
    owner: &Owner,
    name: &str,
    (content, meta): (Content, ObjectMeta),
) -> DesiredCopy {
    let key = ObjectKey::of_source(spec, name);
    let metadata = Metadata::new(owner, &source_reference(&key), &meta, spec);
    DesiredCopy::new(owner.clone(), key.kind, &spec.copy_name(name), metadata, content)
}

/// Reads the source `name`, [at least as new](look) as its watch has `shown` it.
pub async fn read(tenant: &TenantClient, spec: &ValidSync, name: &str, shown: Option<&str>) -> SourceRead {
    let nothing = SourceRead::nothing;
    let (key, copy_name) = (ObjectKey::of_source(spec, name), spec.copy_name(name));
    if copy_name.len() > SUBDOMAIN_MAX {
        return nothing(SourceState::NameTooLong(copy_name.len()));
    }
    let sources: Api<Object> = tenant.namespaced(&key.kind, &key.namespace);
    let _whole = whole(key.kind).await;
    match lookup(look(&sources, &key.name, shown)).await {
        Ok(Some(source)) if source.is_account_token() => nothing(SourceState::AccountToken),
        // It may have lost its labels since it was listed.
        Ok(Some(source)) if !is_selected(spec, &source.metadata) => nothing(SourceState::Missing),
        Ok(Some(source)) => {
            let content = Content::of(&source);
            let absent_keys = content.absent(&spec.keys);
            let version = source.metadata.resource_version.clone();
            match content.chosen(&spec.keys) {
                Ok(content) => {
                    let content = Some((content, metadata_of(&source).into_owned()));
                    SourceRead { source: SourceState::Found, version, absent_keys, content }
                }
                Err(clash) => {
                    SourceRead { source: SourceState::Clash(clash), version, absent_keys, content: None }
                }
            }
        }
        Ok(None) => nothing(SourceState::Missing),
        Err(CallError::Forbidden(status)) => nothing(SourceState::Forbidden(status.message)),
        Err(error) => nothing(SourceState::Failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::outcome::tests::{spec, valid};
    use super::*;

    #[test]
    fn many_sources_for_many_namespaces_are_refused_and_one_source_never() {
        let listed = |sources: usize| ListedSources {
            names: (0..sources).map(|number| number.to_string()).collect(),
            unlisted: None,
        };
        let one = valid(spec(&["foo"]));
        let mut merged = spec(&["foo"]);
        merged["source"] = json!({"namespace": "team-a", "selector": {"matchLabels": {"a": "b"}}});
        (merged["merge"], merged["targets"]["name"]) = (json!({}), json!("all"));
        assert_eq!(listed(256).bounded(&valid(merged), 1_000).names.len(), 256, "they make one copy");
        for (sources, targets, expected) in [(1, 20_000, 1), (100, 100, 100), (0, 5, 0)] {
            let found = listed(sources).bounded(&one, targets);
            assert_eq!((found.names.len(), found.unlisted), (expected, None), "{sources} {targets}");
        }
        let refused = listed(256).bounded(&one, 1_000);
        assert!(refused.names.is_empty());
        assert_eq!(refused.unlisted, Some(Unlisted::TooManyCopies { sources: 256, targets: 1_000 }));
    }
}
