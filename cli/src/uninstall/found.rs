//! What is installed of Config Weaver in a cluster, and what is printed before anything is written.

use std::fmt::Debug;

use anyhow::ensure;
use clap::ValueEnum;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use weaver_api::lease::NAME as LEASE;
use weaver_api::v1beta1::NodeReport;
use weaver_api::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, minting};
use weaver_client::Objects;
use weaver_diagnostics::finding_text::clean;
use weaver_installer::{accounts, deletions, nodes};

use super::installed_object::InstalledObject;
use super::{definitions, namespace};
use crate::connection;
use crate::orphans;
use crate::resource::kind::Kind;
use crate::resource::store::Store;
use crate::status::{self, Leader};

/// What becomes of what was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum CopyDisposal {
    /// Keep them with their ownership labels; `weaver orphans` finds the copies later
    Keep,
    /// Delete them, except those whose sync says to keep them
    Delete,
}

pub struct FoundObjects {
    /// Those of each kind, in the order of [`Kind::ALL`].
    objects: [Vec<DynamicObject>; 3],
    /// Objects with our label.
    copies: usize,
    /// The leader, unless its renewal is late.
    leader: Option<Leader>,
    paused: Option<String>,
    pub reports: Vec<InstalledObject>,
    /// The rights with which the operator acts and nodes report, in the order in which they are deleted.
    pub rights: Vec<InstalledObject>,
    /// Named like a grant of ours, and not as we write it.
    changed: Vec<String>,
    pub policy: Vec<InstalledObject>,
    pub lease: Option<InstalledObject>,
    namespace: Option<InstalledObject>,
    /// What others have in the namespace.
    strangers: Vec<String>,
    pub definitions: Vec<InstalledObject>,
}

impl FoundObjects {
    pub async fn look(client: &Client) -> anyhow::Result<Self> {
        let definitions = definitions::installed(client).await?;
        let knows = |kind: &ApiResource| definitions.iter().any(|one| one.is_of(kind));
        let mut objects = <[Vec<DynamicObject>; 3]>::default();
        for (kind, found) in Kind::ALL.into_iter().zip(&mut objects) {
            if knows(&kind.resource()) {
                *found = Store::all(kind, client).list(ListParams::default()).await?;
            }
        }
        let has_reports = knows(&ApiResource::erase::<NodeReport>(&()));
        let reports = if has_reports { definitions::reports(client).await? } else { Vec::new() };
        let (grants, changed) = grants(client).await?;
        let mut rights = own_rights(client).await?;
        rights.extend(grants);
        let namespace = InstalledObject::find::<Namespace>(client, None, OPERATOR_NAMESPACE).await?;
        let strangers = if namespace.is_some() { namespace::strangers(client).await? } else { Vec::new() };
        let mut policy = Vec::new();
        // What puts it in force first: a binding without its policy refuses everybody.
        for name in [accounts::NAME, deletions::NAME, nodes::NAME] {
            policy
                .extend(InstalledObject::find::<ValidatingAdmissionPolicyBinding>(client, None, name).await?);
            policy.extend(InstalledObject::find::<ValidatingAdmissionPolicy>(client, None, name).await?);
        }
        Ok(Self {
            objects,
            copies: copies(client).await?,
            leader: leader(client).await?,
            paused: status::paused(client).await?,
            reports,
            rights,
            changed,
            policy,
            lease: InstalledObject::find::<Lease>(client, Some(OPERATOR_NAMESPACE), LEASE).await?,
            namespace,
            strangers,
            definitions,
        })
    }

    pub fn of(&self, kind: Kind) -> &[DynamicObject] {
        &self.objects[kind as usize]
    }

    /// Is nothing left that would be removed?
    pub fn is_nothing(&self) -> bool {
        let parts = [&self.reports, &self.rights, &self.policy, &self.definitions];
        self.objects.iter().all(Vec::is_empty)
            && parts.iter().all(|parts| parts.is_empty())
            && self.lease.is_none()
            && (self.namespace.is_none() || !self.strangers.is_empty())
    }

    /// May it be done as things are?
    pub fn allows(&self, agents_stopped: bool) -> anyhow::Result<()> {
        // A user who paused everything wants nothing lost, and a deletion would wait forever.
        if let Some(reason) = &self.paused {
            ensure!(
                self.objects.iter().all(Vec::is_empty),
                "all resources are paused ({reason}): `weaver resume{}` first",
                connection::flags()
            );
        }
        ensure!(
            self.reports.is_empty() || agents_stopped,
            "a node agent reports {}, and a running agent installs all of this again. On \
             each of these nodes: `sudo systemctl disable --now weaver-node-agent weaver-operator \
             weaver-webhook.socket weaver-webhook`; then run this with --agents-stopped",
            named(&self.reports)
        );
        Ok(())
    }

    /// What is installed, and what will happen to it.
    pub fn describe(&self, copies: CopyDisposal) -> String {
        let mut lines = Vec::new();
        if self.is_nothing() {
            lines.push("nothing of Config Weaver is left in this cluster".to_owned());
            lines.extend(copies_reported(self.copies));
        } else {
            let made = match copies {
                CopyDisposal::Keep => "what they made stays",
                CopyDisposal::Delete => "what they made is deleted too, unless their spec keeps it",
            };
            for kind in Kind::ALL {
                let keys: Vec<String> = self.of(kind).iter().map(|object| kind.object_key(object)).collect();
                if !keys.is_empty() {
                    lines.push(format!("to be deleted: {}; {made}", keys.join(", ")));
                }
            }
            lines.push(format!("copies: {}", self.copies));
            lines.push(self.leader.as_ref().map_or_else(
                || "no operator is running: this command cleans up with your rights".to_owned(),
                |leader| format!("{} is the leader and cleans up", status::named(&leader.holder)),
            ));
            let parts = self.rights.iter().chain(&self.policy).chain(&self.lease);
            let namespace = self.namespace.iter().filter(|_| self.strangers.is_empty());
            let parts = parts.chain(namespace).chain(&self.reports).chain(&self.definitions);
            lines.extend(parts.map(|part| format!("to be deleted: {part}")));
        }
        if !self.strangers.is_empty() {
            lines.push(namespace::stays(&self.strangers));
        }
        lines.extend(self.changed.iter().map(|changed| {
            format!(
                "{changed} stays, because it was changed after `weaver tenant allow` wrote it; delete it if you do not need it"
            )
        }));
        lines.into_iter().map(|line| clean(&line) + "\n").collect()
    }
}

fn named(parts: &[InstalledObject]) -> String {
    parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The leader: the holder of the lease, unless it should have renewed it by now. If the clocks of the two machines
/// differ and it does lead, both act, but only on objects named by uid and resourceVersion.
pub async fn leader(client: &Client) -> anyhow::Result<Option<Leader>> {
    let lease = status::lease(client).await?;
    let leader = lease.and_then(|lease| status::leader(&lease, Timestamp::now()));
    Ok(leader.filter(|leader| !leader.late))
}

/// How many objects have our label.
pub async fn copies(client: &Client) -> anyhow::Result<usize> {
    Ok(orphans::all_marked(client, None).await?.len())
}

/// The note that some copies stay, if some do.
pub fn copies_reported(count: usize) -> Option<String> {
    let flags = connection::flags();
    (count > 0).then(|| format!("copies that stay: {count}; `weaver orphans list{flags}` shows them"))
}

/// The objects of `deploy/rbac/` besides the namespace, bindings first.
async fn own_rights(client: &Client) -> anyhow::Result<Vec<InstalledObject>> {
    let (own, name) = (Some(OPERATOR_NAMESPACE), OPERATOR_ACCOUNT);
    let parts = [
        InstalledObject::find::<ClusterRoleBinding>(client, None, name).await?,
        InstalledObject::find::<ClusterRoleBinding>(client, None, nodes::NAME).await?,
        InstalledObject::find::<RoleBinding>(client, own, name).await?,
        InstalledObject::find::<ClusterRole>(client, None, name).await?,
        InstalledObject::find::<ClusterRole>(client, None, nodes::NAME).await?,
        InstalledObject::find::<Role>(client, own, name).await?,
        InstalledObject::find::<ServiceAccount>(client, own, name).await?,
    ];
    Ok(parts.into_iter().flatten().collect())
}

/// What tenants have granted, bindings first; and objects that only have such a name.
async fn grants(client: &Client) -> anyhow::Result<(Vec<InstalledObject>, Vec<String>)> {
    let mut all = of_kind(client, minting::is_bound).await?;
    all.extend(of_kind(client, minting::is_granted).await?);
    let (ours, changed): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, is_ours)| *is_ours);
    let ours = ours.into_iter().map(|(part, _)| part).collect();
    Ok((ours, changed.iter().map(|(part, _)| part.to_string()).collect()))
}

/// Those of a kind that are named like ours, and whether they are.
async fn of_kind<K>(
    client: &Client,
    is_ours: impl Fn(&K) -> bool,
) -> anyhow::Result<Vec<(InstalledObject, bool)>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let objects: Objects<K> = Objects::new(Api::all(client.clone()), "weaver");
    let mut pages = objects.pages(ListParams::default());
    let mut found = Vec::new();
    while let Some(page) = pages.next_page().await? {
        if page.is_first {
            found.clear();
        }
        let named = page.items.iter().filter(|object| minting::is_named_like_ours(object.meta()));
        found.extend(named.map(|object| (InstalledObject::of(object), is_ours(object))));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn empty() -> FoundObjects {
        FoundObjects {
            objects: <[_; 3]>::default(),
            copies: 0,
            leader: None,
            paused: None,
            reports: Vec::new(),
            rights: Vec::new(),
            changed: Vec::new(),
            policy: Vec::new(),
            lease: None,
            namespace: None,
            strangers: Vec::new(),
            definitions: Vec::new(),
        }
    }

    fn named_part<K: kube::Resource<DynamicType = ()>>(name: &str) -> InstalledObject {
        InstalledObject::named::<K>(&ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() })
    }

    #[test]
    fn what_others_keep_does_not_count_as_left() {
        let mut found = empty();
        assert!(found.is_nothing());
        found.namespace = Some(named_part::<Namespace>(OPERATOR_NAMESPACE));
        assert!(!found.is_nothing());
        found.strangers = vec!["ConfigMap theirs".into()];
        found.changed = vec!["Role foo/weaver-mint-other".into()];
        found.copies = 2;
        assert!(found.is_nothing());
        let said = found.describe(CopyDisposal::Keep);
        for message in [
            "nothing of Config Weaver is left",
            "copies that stay: 2;",
            "ConfigMap theirs",
            "weaver-mint-other stays",
        ] {
            assert!(said.contains(message), "{message:?} is not in: {said}");
        }
    }

    #[test]
    fn a_pause_and_a_node_agent_forbid_it_with_what_to_do() {
        let message =
            |found: &FoundObjects, stopped| found.allows(stopped).map_err(|error| error.to_string());
        let mut found = empty();
        found.paused = Some("a backup".into());
        assert_eq!(message(&found, false), Ok(()), "nothing would wait for it");
        found.objects[2] = vec![serde_json::from_value(json!({})).unwrap()];
        assert!(message(&found, true).unwrap_err().contains("(a backup): `weaver resume` first"));
        let found = FoundObjects { reports: vec![named_part::<NodeReport>("raspi")], ..empty() };
        assert!(message(&found, false).unwrap_err().contains("reports raspi"));
        assert_eq!(message(&found, true), Ok(()));
    }
}
