//! Lists in pages: an answer has only so many objects, and fewer where they are so large that it would be longer than
//! what is read of one.

use std::fmt::Debug;

use kube::Resource;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

use crate::call::CallError;
use crate::error::{Error, Why};
use crate::objects::{ATTEMPTS, Objects};

/// Objects of one page of a list, unless the parameters say otherwise.
pub const PAGE: u32 = 500;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// Its objects.
    pub items: Vec<K>,
    /// Is it the first one? A list that changes so fast that its pages expire is read again from the start, a few times:
    /// then there is another first page, and those before it do not count.
    pub is_first: bool,
    /// Is it the last one?
    pub is_last: bool,
}

/// A list that is read page by page ([`Objects::pages`]).
pub struct Pages<'a, K> {
    objects: &'a Objects<K>,
    params: ListParams,
    expired: u32,
    is_read: bool,
}

impl<K: Resource + Clone + DeserializeOwned + Debug> Objects<K> {
    /// All objects that the parameters select. They are in memory together: where others decide how many they are, and
    /// how large, read the [pages](Self::pages) one by one.
    ///
    /// # Errors
    /// As [`Pages::next_page`].
    pub async fn list(&self, params: ListParams) -> Result<Vec<K>, Error> {
        let (mut pages, mut objects) = (self.pages(params), Vec::new());
        while let Some(page) = pages.next_page().await? {
            if page.is_first {
                objects.clear();
            }
            objects.extend(page.items);
        }
        Ok(objects)
    }

    /// The objects that the parameters select, page by page ([`PAGE`]).
    #[must_use]
    pub fn pages(&self, mut params: ListParams) -> Pages<'_, K> {
        params.limit.get_or_insert(PAGE);
        Pages { objects: self, params, expired: 0, is_read: false }
    }
}

impl<K: Resource + Clone + DeserializeOwned + Debug> Pages<'_, K> {
    /// Reads the next page; `None` after the last. Where the objects are so large that a page is longer than what is read
    /// of an answer, it and the next ones are smaller.
    ///
    /// # Errors
    /// If the API server refuses a page or does not answer.
    pub async fn next_page(&mut self) -> Result<Option<Page<K>>, Error> {
        if self.is_read {
            return Ok(None);
        }
        loop {
            let is_first = self.params.continue_token.is_none();
            let answer = self.objects.within_deadline(self.objects.api().list(&self.params)).await;
            let limit = self.params.limit.unwrap_or(PAGE);
            match answer {
                Ok(list) => {
                    self.params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
                    self.is_read = self.params.continue_token.is_none();
                    return Ok(Some(Page { items: list.items, is_first, is_last: self.is_read }));
                }
                Err(Why::Refused(status)) if status.code == 410 && !is_first && self.expired < ATTEMPTS => {
                    self.expired += 1;
                    self.params.continue_token = None;
                }
                Err(Why::Unanswered(CallError::TooLarge)) if limit > 1 => {
                    self.params.limit = Some((limit / 10).max(1));
                }
                Err(why) => return Err(self.objects.not_listed(why)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{Request, Response};
    use http_body_util::Limited;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use kube::{Api, Client};
    use serde_json::{Value, json};
    use tower::BoxError;

    use super::*;

    /// Twenty objects; no more than 300 bytes are read of an answer.
    fn answer(query: &str) -> Response<Limited<Body>> {
        let value = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            value.map_or(0, |value| value.parse::<usize>().unwrap())
        };
        let (from, to) = (value("continue"), (value("continue") + value("limit")).min(20));
        let items: Vec<Value> = (from..to).map(|n| json!({"metadata": {"name": format!("o-{n}")}})).collect();
        let more = if to < 20 { to.to_string() } else { String::new() };
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"continue": more}, "items": items});
        Response::new(Limited::new(Body::from(list.to_string().into_bytes()), 300))
    }

    fn names(maps: &[ConfigMap]) -> Vec<String> {
        maps.iter().filter_map(|map| map.metadata.name.clone()).collect()
    }

    /// Who may write objects decides how long a page is, and must not hide the others.
    #[tokio::test]
    async fn a_page_that_is_too_long_is_read_in_smaller_ones() {
        let service = tower::service_fn(|request: Request<Body>| {
            ready(Ok::<_, BoxError>(answer(request.uri().query().unwrap_or_default())))
        });
        let client = Client::new(service, "a");
        let maps: Objects<ConfigMap> = Objects::new(Api::namespaced(client, "a"), "test");
        let found = maps.list(ListParams::default()).await.unwrap();
        assert_eq!(names(&found), (0..20).map(|n| format!("o-{n}")).collect::<Vec<_>>());
        let mut pages = maps.pages(ListParams::default().limit(15));
        let page = pages.next_page().await.unwrap().unwrap();
        assert_eq!((names(&page.items), page.is_first, page.is_last), (vec!["o-0".to_owned()], true, false));
    }

    #[tokio::test]
    async fn a_list_that_expires_has_another_first_page() {
        let asked = std::sync::Arc::new(AtomicU32::new(0));
        let service = tower::service_fn(move |request: Request<Body>| {
            // The second page expires once.
            let is_gone = asked.fetch_add(1, Ordering::Relaxed) == 1;
            let mut answer = answer(request.uri().query().unwrap_or_default());
            if is_gone {
                let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "m"});
                answer = Response::new(Limited::new(Body::from(status.to_string().into_bytes()), 300));
                *answer.status_mut() = http::StatusCode::GONE;
            }
            ready(Ok::<_, BoxError>(answer))
        });
        let client = Client::new(service, "a");
        let maps: Objects<ConfigMap> = Objects::new(Api::namespaced(client, "a"), "test");
        let mut pages = maps.pages(ListParams::default().limit(5));
        let mut seen = Vec::new();
        while let Some(page) = pages.next_page().await.unwrap() {
            seen.push((page.items.len(), page.is_first, page.is_last));
        }
        let again = [(5, true, false), (5, false, false), (5, false, false), (5, false, true)];
        assert_eq!((seen[0], &seen[1..]), (again[0], &again[..]));
    }
}
