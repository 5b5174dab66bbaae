//! The metadata of many objects in pages, and object by object where a page is too long: users with write access there
//! decide how many objects there are, and how large, and must not hide the others.

use std::fmt::Debug;
use std::ops::ControlFlow;

use kube::Resource;
use kube::api::{Api, ListParams, ObjectMeta};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::call::{CallError, call};

/// Objects in one answer of a list.
const PAGE: u32 = 100;
/// Pages in memory at once, of all lists of one sort: each may be as long as an answer may be, and is held a second time
/// while it is parsed. ConfigMaps, Secrets and what else `/api` has are apart: no webhook that converts delays them.
static PAGES: [Semaphore; 2] = [Semaphore::const_new(4), Semaphore::const_new(4)];

/// Hands over the metadata of what has the labels of `query`, page by page, until there is no more or `take` has enough.
/// Each page has the [deadline](crate::call::DEADLINE) of one call.
///
/// # Errors
/// If a page cannot be read, or has expired; what was handed over before is not all.
pub async fn each_page<K: Clone + Debug + DeserializeOwned + Resource>(
    objects: &Api<K>,
    query: &str,
    mut take: impl FnMut(Vec<ObjectMeta>) -> ControlFlow<()>,
) -> Result<(), CallError> {
    let mut params = ListParams::default().labels(query).limit(PAGE);
    let pages = &PAGES[usize::from(objects.resource_url().starts_with("/apis/"))];
    loop {
        // It is never closed.
        let _page = pages.acquire().await;
        match call(objects.list_metadata(&params)).await {
            Ok(list) => {
                params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
                let found = list.items.into_iter().map(|object| object.metadata).collect();
                if take(found).is_break() || params.continue_token.is_none() {
                    return Ok(());
                }
            }
            Err(CallError::TooLarge) if params.limit != Some(1) => params.limit = Some(1),
            Err(error) => return Err(error),
        }
    }
}
