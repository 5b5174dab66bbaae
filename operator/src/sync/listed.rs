//! Which of many copies are as they should be, by one list where each would be read.
//!
//! After a start nothing is known of the content of copies. Of the list nothing counts but that a copy is as it should
//! be, in the very state that the watch shows; all else is read and judged as if there were no list. So it may come from
//! the API server's memory, and may fail. It is the tenant's own, with the right by which the tenant watches.

use std::collections::BTreeMap;

use kube::api::{Api, ListParams, VersionMatch};
use weaver_api::ownership::SYNC_UID_LABEL;
use weaver_client::call::call;

use super::execute::whole_list;
use weaver_copies::copy::DesiredCopy;
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::plan::{CopyStep, Takes, Verified, by_object};

/// For fewer no list is made: the API server looks at each object of the kind for it, and a read costs it as much as a
/// look at a thousand of them.
pub const MANY: usize = 8;

/// Bytes of the copies that are listed, with [`EACH`]; a quarter of what is read of an answer.
const LONGEST: usize = 2 << 20;

/// Bytes of an object besides its content.
const EACH: usize = 1 << 10;

/// Those of the copies in the states `shown` by a watch that are as `desired`. None, where they are few, or too long for
/// one answer.
pub async fn in_sync(
    copies: &Api<Object>,
    desired: &DesiredCopy,
    shown: &BTreeMap<ObjectKey, String>,
) -> Vec<(ObjectKey, Verified)> {
    if shown.len() < MANY || shown.len() * (EACH + desired.size()) > LONGEST {
        return Vec::new();
    }
    let selector = format!("{SYNC_UID_LABEL}={}", desired.owner.uid);
    // A resource with many sources lists for each of them: without the name, all its copies each time.
    let name = format!("metadata.name={}", desired.name);
    let params = ListParams::default().labels(&selector).fields(&name);
    let params = params.at("0").matching(VersionMatch::NotOlderThan);
    let _whole = whole_list().await;
    let Ok(list) = call(copies.list(&params)).await else { return Vec::new() };
    let verified = |copy: &Object| {
        let key = ObjectKey::of(desired.kind, &copy.metadata)?;
        let is_shown = copy.metadata.resource_version.as_ref() == Some(shown.get(&key)?);
        let is_in_sync = is_shown && by_object(desired, Takes::default(), Some(copy)) == CopyStep::Keep;
        let verified = Verified::new(&copy.metadata, desired, None).filter(|_| is_in_sync)?;
        Some((key, verified))
    };
    list.items.iter().filter_map(verified).collect()
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tower::BoxError;
    use weaver_api::kind::ObjectKind;
    use weaver_api::ownership::Owner;
    use weaver_copies::content::Content;

    use super::super::outcome::tests::{spec, valid};
    use super::super::sources::copy;
    use super::*;

    fn desired() -> DesiredCopy {
        let source: Object = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team-a", "name": "settings"},
            "data": {"a": "1"},
        }))
        .unwrap();
        let owner = Owner { namespace: "team-a".into(), name: "sync".into(), uid: "u1".into() };
        copy(&valid(spec(&["foo"])), &owner, "settings", (Content::of(&source), source.metadata))
    }

    /// The copy in `namespace`, in this state and with this value, as an item of a list.
    fn item(namespace: &str, version: &str, value: &str) -> Value {
        let mut item: Value = serde_json::from_slice(&desired().create_json(namespace)).unwrap();
        item["metadata"]["uid"] = json!(format!("uid-{namespace}"));
        item["metadata"]["resourceVersion"] = json!(version);
        item["data"]["a"] = json!(value);
        item.as_object_mut().unwrap().retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
        item
    }

    /// What is found in sync of so many copies, of which the watch shows state 5, where this is listed; and which
    /// requests that took.
    async fn found(copies: usize, code: u16, items: &[Value]) -> (Vec<String>, Vec<String>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let uris = asked.clone();
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": items});
        let server = tower::service_fn(move |request: Request<Body>| {
            uris.lock().push(request.uri().to_string());
            let body = Body::from(list.to_string().into_bytes());
            ready(Response::builder().status(code).body(body).map_err(BoxError::from))
        });
        let all: Api<Object> = Api::all_with(Client::new(server, "default"), &ObjectKind::CONFIG_MAP);
        let desired = desired();
        let shown = (0..copies).map(|number| (desired.object_key(&format!("n{number}")), "5".to_owned()));
        let in_sync = in_sync(&all, &desired, &shown.collect()).await;
        let asked = asked.lock().clone();
        (in_sync.into_iter().map(|(key, _)| key.namespace).collect(), asked)
    }

    #[tokio::test]
    async fn one_list_shows_which_copies_are_in_sync_in_the_state_that_the_watch_shows() {
        let mut items: Vec<Value> = (0..MANY).map(|number| item(&format!("n{number}"), "5", "1")).collect();
        items[1] = item("n1", "6", "1");
        items[2] = item("n2", "5", "2");
        items[3]["metadata"]["annotations"] = json!({});
        items[4] = item("elsewhere", "5", "1");
        let (in_sync, asked) = found(MANY, 200, &items).await;
        assert_eq!(in_sync, ["n0", "n5", "n6", "n7"]);
        let [asked] = &asked[..] else { panic!("{asked:?}") };
        for part in ["sync-uid%3Du1", "fieldSelector=metadata.name%3Dsettings&", "resourceVersion=0&"] {
            assert!(asked.contains(part), "{asked}");
        }
    }

    #[tokio::test]
    async fn few_copies_are_not_listed_and_nothing_follows_from_a_list_that_fails() {
        let items: Vec<Value> = (0..MANY).map(|number| item(&format!("n{number}"), "5", "1")).collect();
        let (in_sync, asked) = found(MANY - 1, 200, &items).await;
        assert_eq!((in_sync.len(), asked.len()), (0, 0));
        let (in_sync, asked) = found(MANY, 500, &items).await;
        assert_eq!((in_sync.len(), asked.len()), (0, 1));
        let (_, asked) = found(LONGEST / EACH, 200, &[]).await;
        assert_eq!(asked.len(), 0, "they are too long for one answer");
    }
}
