//! The kinds that a cluster may have copies of, looked up with the rights of the user.

use kube::Client;
use kube::discovery::{self, ApiGroup, Discovery, Scope, verbs};
use kube::error::DiscoveryError;
use weaver_api::kind::ObjectKind;
use weaver_copies::kinds::{Treatment, treatment};

use crate::stdout::note;

/// Kinds of which there may be copies: ConfigMaps and Secrets, and what a ResourceSync copies.
pub async fn all(client: &Client) -> Vec<ObjectKind> {
    let mut kinds = ObjectKind::OF_CONFIG_MAP_SYNC.to_vec();
    let discovered = match Discovery::new(client.clone()).run().await {
        Ok(discovered) => discovered,
        Err(error) => {
            note!(
                "the kinds that the API server serves are not known, so only ConfigMaps and Secrets are searched: {error}"
            );
            return kinds;
        }
    };
    for (resource, serves) in discovered.groups().flat_map(ApiGroup::recommended_resources) {
        let is_written =
            [verbs::LIST, verbs::CREATE, verbs::DELETE].iter().all(|verb| serves.supports_operation(verb));
        let is_copied = matches!(treatment(&resource.group, &resource.kind), Treatment::Without(_));
        if serves.scope == Scope::Namespaced && is_written && is_copied {
            kinds.push(ObjectKind::served(
                &resource.group,
                &resource.version,
                &resource.kind,
                &resource.plural,
            ));
        }
    }
    kinds
}

/// This kind as the API server serves it, at the version that it prefers or at another; `None` where it serves none of
/// that name, and so has no objects of it.
pub async fn served(client: &Client, named: ObjectKind) -> Result<Option<ObjectKind>, kube::Error> {
    let group = match discovery::group(client, named.group()).await {
        Ok(group) => group,
        Err(kube::Error::Discovery(DiscoveryError::MissingApiGroup(_))) => return Ok(None),
        Err(error) => return Err(error),
    };
    let others = group.versions().flat_map(|version| group.versioned_resources(version));
    let mut all = group.recommended_resources().into_iter().chain(others);
    let found = all.find(|(resource, _)| resource.kind == named.as_str());
    Ok(found.map(|(resource, _)| {
        ObjectKind::served(&resource.group, &resource.version, &resource.kind, &resource.plural)
    }))
}
