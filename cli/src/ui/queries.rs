//! What a page requests from the API server, besides the watches: one object, its Events, the rights of an account.
//! Reads only. Only names that the API server has reported are used in requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use tokio::time::timeout;
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::{ConfigMapSync, ResourceSync};
use weaver_api::validate::KindName;
use weaver_client::call::DEADLINE;
use weaver_client::{Error, Objects};
use weaver_copies::rights::Right;
use weaver_diagnostics::finding_text::clean;
use weaver_tenant::Account;
use weaver_tenant::review::denied;

use super::app::App;
use super::command_log::patience;
use super::page::accounts::{Reviewed, ReviewedRights};
use super::view::account::AccountView;
use super::view::event::{History, MOST};
use super::view::health::ResourceSummary;
use super::view::sync::{SyncKey, SyncKind, SyncView};
use crate::review;
use crate::sync::any_sync::{self, AnySync};

/// The whole of a sync of which only what the lists show is kept.
pub async fn details(app: &App, brief: &SyncView) -> Result<SyncView, String> {
    let ResourceSummary { namespace, name, version, .. } = &brief.summary;
    let key = format!("{} {namespace}/{name} {version}", brief.kind.name());
    let client = app.live.client.clone();
    let asked = app.syncs.get(key, async {
        match brief.kind {
            SyncKind::ConfigMap => {
                let api: Api<DeserializeGuard<ConfigMapSync>> = Api::namespaced(client, namespace);
                api.get(name).await.map(|guard| SyncView::of_config_maps(&guard))
            }
            SyncKind::Resource => {
                let api: Api<DeserializeGuard<ResourceSync>> = Api::namespaced(client, namespace);
                api.get(name).await.map(|guard| SyncView::of_resources(&guard))
            }
        }
    });
    in_time(DEADLINE, asked).await
}

/// An answer of the API server, or why there is none.
pub async fn in_time<T, E: Display>(
    limit: Duration,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(limit, asked).await {
        Ok(answer) => answer.map_err(|error| clean(&format!("{error:#}"))),
        Err(_) => Err("the API server gave no answer in time".to_owned()),
    }
}

/// The current spec of a sync.
pub async fn sync(client: &Client, SyncKey { kind, namespace, name }: &SyncKey) -> anyhow::Result<AnySync> {
    match kind {
        SyncKind::ConfigMap => {
            let syncs: Objects<ConfigMapSync> =
                Objects::new(Api::namespaced(client.clone(), namespace), "weaver");
            Ok(AnySync::of_sync(&syncs.read(name).await?))
        }
        SyncKind::Resource => {
            let syncs: Objects<ResourceSync> =
                Objects::new(Api::namespaced(client.clone(), namespace), "weaver");
            Ok(AnySync::of_resource(client, &syncs.read(name).await?).await)
        }
    }
}

/// The events in this namespace about what is selected, or why they are not known.
pub async fn said(app: &App, namespace: &str, about: &str) -> Result<History, String> {
    let events: Objects<v1::Event> =
        Objects::new(Api::namespaced(app.live.client.clone(), namespace), "weaver");
    let asked = app.histories.get(format!("{namespace} {about}"), async {
        let (mut history, mut seen) = (History::default(), 0);
        let mut pages = events.pages(ListParams::default().fields(about));
        while let Some(page) = Box::pin(pages.next_page()).await? {
            if page.is_first {
                (history, seen) = (History::default(), 0);
            }
            history.extend(&page.items);
            // In order of their names, and not of their times.
            history.is_cut = !page.is_last;
            seen += page.items.len();
            if seen >= MOST {
                break;
            }
        }
        Ok::<_, Error>(history)
    });
    in_time(DEADLINE, asked).await
}

/// Which of the needed rights the account has in this namespace: a review, which changes nothing.
pub async fn reviewed(app: &App, account: &AccountView<'_>, namespace: String) -> Reviewed {
    let of = Account { namespace: account.namespace.to_owned(), name: account.name.to_owned() };
    let client = &app.live.client;
    let asked = in_time(patience(1), async {
        let (kinds, unknown) = served(client, account.copied(&namespace)).await;
        let needed = account.needed(&namespace, &kinds);
        let all = needed.iter().cloned().collect();
        let denied = denied(all, |right| review::allowed(client, &of, right)).await?;
        let of_each = |right: &Right| (clean(&label(right)), !denied.contains(right));
        anyhow::Ok(ReviewedRights { rights: needed.iter().map(of_each).collect(), unknown })
    });
    let rights = asked.await;
    Reviewed { namespace, rights }
}

/// Those of these kinds that the API server serves, and why others are not known. What a ConfigMapSync copies takes no
/// request.
async fn served(
    client: &Client,
    names: BTreeSet<&KindName>,
) -> (BTreeMap<KindName, ObjectKind>, Vec<String>) {
    let (mut kinds, mut unknown) = (BTreeMap::new(), Vec::new());
    for name in names {
        let own = ObjectKind::OF_CONFIG_MAP_SYNC.into_iter().find(|kind| KindName::from(*kind) == *name);
        let found = match own {
            Some(kind) => Ok(kind),
            None => any_sync::served(client, name).await,
        };
        match found {
            Ok(kind) => drop(kinds.insert(name.clone(), kind)),
            Err(why) => unknown.push(clean(&why)),
        }
    }
    (kinds, unknown)
}

/// `get ConfigMap settings`, `create ConfigMaps`.
fn label(right: &Right) -> String {
    match &right.object {
        Some(name) => format!("{} {} {name}", right.verb, right.kind),
        None => format!("{} {}", right.verb, right.kind.several()),
    }
}
