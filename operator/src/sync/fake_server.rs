//! An API server in memory, for tests of whole reconciliations: objects by path, resourceVersions and
//! preconditions as the real one has them, merge patches, dry runs, and a record of every write. Its watches
//! never work, so that a reconciliation looks at every object itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

/// The server; a clone is the same one.
#[derive(Clone, Default)]
pub struct FakeServer(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Value>,
    version: u64,
    writes: Vec<String>,
    attempts: Vec<String>,
    events: Vec<String>,
    notes: Vec<String>,
    forbidden: BTreeSet<String>,
    missing: BTreeSet<String>,
    broken: BTreeSet<String>,
    slow: Option<(String, Duration)>,
    failing_reviews: u32,
    asked: Vec<String>,
    grants_everywhere: bool,
    lists_of_all: usize,
}

type Answer = Result<Value, (u16, &'static str)>;

impl FakeServer {
    /// Puts an object at its path, as someone else.
    pub fn put(&self, path: &str, object: Value) {
        let mut inner = self.lock();
        let uid = inner.objects.get(path).map(|old| old["metadata"]["uid"].clone());
        inner.store(path, object, uid);
    }

    /// Deletes an object, as someone else.
    pub fn remove(&self, path: &str) {
        self.lock().objects.remove(path);
    }

    /// The object at `path`.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(path).cloned()
    }

    /// Refuses the tenant everything in this namespace; or not any more.
    pub fn forbid(&self, namespace: &str, forbidden: bool) {
        let mut inner = self.lock();
        if forbidden {
            inner.forbidden.insert(namespace.into())
        } else {
            inner.forbidden.remove(namespace)
        };
    }

    /// Another program's webhook is unreachable for objects of this namespace.
    pub fn breaks(&self, namespace: &str) {
        self.lock().broken.insert(namespace.into());
    }

    /// Answers to requests with this in their path take so long from now on.
    pub fn answers_late(&self, path: &str, after: Duration) {
        self.lock().slow = Some((path.into(), after));
    }

    /// The next so many questions about all rights in a namespace fail.
    pub fn fails_reviews(&self, count: u32) {
        self.lock().failing_reviews = count;
    }

    /// About which namespaces the tenant's rights were asked since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().asked)
    }

    /// The tenant may list and watch in all namespaces at once, and what it sees is longer than what is read of
    /// an answer; or not any more.
    pub fn grants_everywhere(&self, granted: bool) {
        self.lock().grants_everywhere = granted;
    }

    /// How often all namespaces were listed at once.
    pub fn lists_of_all(&self) -> usize {
        self.lock().lists_of_all
    }

    /// There is no such namespace.
    pub fn lacks(&self, namespace: &str) {
        self.lock().missing.insert(namespace.into());
    }

    /// What was written since the last call, refused attempts left out: `<verb> <path>`.
    pub fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().writes)
    }

    /// Reasons of the events that were sent since the last call, each with what it is about.
    pub fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().events)
    }

    /// The notes of all events, each with the namespace that it was sent to.
    pub fn notes(&self) -> Vec<String> {
        self.lock().notes.clone()
    }

    /// What someone tried to write since the last call, whatever came of it.
    pub fn attempts(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().attempts)
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let slow = server.lock().slow.clone();
                if let Some((path, after)) = slow
                    && parts.uri.path().contains(&path)
                {
                    tokio::time::sleep(after).await;
                }
                let mut inner = server.lock();
                let write = format!("{} {}", parts.method, parts.uri.path());
                let is_write = parts.method != Method::GET
                    && !is_question(parts.uri.path())
                    && !is_dry_run(&parts, &body);
                inner.attempts.extend(is_write.then(|| write.clone()));
                let (code, answer) = match inner.answer(&parts, &body) {
                    Ok(answer) => {
                        inner.writes.extend(is_write.then_some(write));
                        (200, answer)
                    }
                    Err((code, reason)) => (code, failure(code, reason)),
                };
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Client::new(service, "default")
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

/// Is it a POST that writes nothing of a tenant's: a question or a report?
fn is_question(path: &str) -> bool {
    path.contains("/events")
        || ["/token", "/selfsubjectaccessreviews", "/selfsubjectrulesreviews"]
            .iter()
            .any(|end| path.ends_with(end))
}

/// Is it to be judged, and not stored?
fn is_dry_run(parts: &http::request::Parts, body: &Value) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query.split('&').any(|pair| pair == "dryRun=All") || body["dryRun"] == json!(["All"])
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code})
}

impl Inner {
    /// An Event is written.
    fn note(&mut self, path: &str, body: &Value) {
        let about = &body["regarding"];
        let [reason, kind, name] =
            [&body["reason"], &about["kind"], &about["name"]].map(|text| text.as_str());
        let namespace = path.split("/namespaces/").nth(1).unwrap_or_default();
        self.notes.push(format!("{namespace} {}", body["note"].as_str().unwrap_or_default()));
        self.events.push([reason, kind, name].map(Option::unwrap_or_default).join(" "));
    }

    fn answer(&mut self, parts: &http::request::Parts, body: &Value) -> Answer {
        let path = parts.uri.path();
        if path.contains("/events") {
            self.note(path, body);
            return Ok(body.clone());
        }
        if path.ends_with("/token") {
            return Ok(json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []},
                "metadata": {"uid": "account", "creationTimestamp": "2020-01-01T00:00:00Z"},
                "status": {"token": "tenant", "expirationTimestamp": "2020-01-01T01:00:00Z"},
            }));
        }
        if path.ends_with("/selfsubjectaccessreviews") {
            let namespace = body["spec"]["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
            let allowed =
                !self.forbidden.contains(namespace) && (self.grants_everywhere || !namespace.is_empty());
            return Ok(json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                             "spec": {}, "status": {"allowed": allowed}}));
        }
        if path.ends_with("/selfsubjectrulesreviews") {
            return self.rules(body);
        }
        let namespace = path.split("/namespaces/").nth(1).and_then(|rest| rest.split('/').next());
        if path.starts_with("/api/v1/") {
            assert_eq!(parts.headers[AUTHORIZATION], "Bearer tenant", "ConfigMaps are the tenant's alone");
            if namespace.is_some_and(|namespace| self.forbidden.contains(namespace)) {
                return Err((403, "Forbidden"));
            }
            if namespace.is_some_and(|namespace| self.missing.contains(namespace)) {
                return Err((404, "NotFound"));
            }
        }
        let metadata_only = parts
            .headers
            .get(ACCEPT)
            .is_some_and(|accept| accept.as_bytes().starts_with(b"application/json;as=Partial"));
        match parts.method {
            Method::GET if path == "/api/v1/configmaps" && self.grants_everywhere => {
                self.lists_of_all += 1;
                Ok(json!({"padding": "x".repeat(9 << 20)}))
            }
            Method::GET if path.ends_with("/configmaps") => {
                self.list(path, parts.uri.query().unwrap_or_default())
            }
            Method::GET => {
                let object = self.objects.get(path).cloned().ok_or((404, "NotFound"))?;
                Ok(if metadata_only { partial(&object) } else { object })
            }
            Method::POST | Method::DELETE
                if self.broken.iter().any(|namespace| path.contains(&format!("/{namespace}/"))) =>
            {
                self.version += 1;
                let port = 40_000 + self.version;
                // As the API server does: with a different message each time.
                Err((
                    500,
                    format!("failed calling webhook: read tcp 10.0.0.1:{port}: connection reset").leak(),
                ))
            }
            Method::POST => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                if self.objects.contains_key(&path) {
                    return Err((409, "AlreadyExists"));
                }
                if is_dry_run(parts, body) {
                    return Ok(body.clone());
                }
                Ok(self.store(&path, body.clone(), None))
            }
            Method::PUT => {
                let old = self.objects.get(path).ok_or((404, "NotFound"))?;
                for part in ["uid", "resourceVersion"] {
                    if old["metadata"][part] != body["metadata"][part] {
                        return Err((409, "Conflict"));
                    }
                }
                if is_dry_run(parts, body) {
                    return Ok(body.clone());
                }
                let uid = old["metadata"]["uid"].clone();
                Ok(self.store(path, body.clone(), Some(uid)))
            }
            Method::PATCH => self.patch(path, body),
            Method::DELETE => {
                let old = self.objects.get(path).ok_or((404, "NotFound"))?;
                for part in ["uid", "resourceVersion"] {
                    assert_eq!(
                        old["metadata"][part], body["preconditions"][part],
                        "a delete without precondition"
                    );
                }
                if is_dry_run(parts, body) {
                    return Ok(old.clone());
                }
                Ok(self.objects.remove(path).unwrap_or_default())
            }
            _ => Err((405, "MethodNotAllowed")),
        }
    }

    /// All rights of the tenant in one namespace.
    fn rules(&mut self, body: &Value) -> Answer {
        if self.failing_reviews > 0 {
            self.failing_reviews -= 1;
            return Err((500, "InternalError"));
        }
        let namespace = body["spec"]["namespace"].as_str().unwrap_or_default();
        self.asked.push(namespace.to_owned());
        let all = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]});
        let rules = if self.forbidden.contains(namespace) { json!([]) } else { json!([all]) };
        Ok(json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {},
                  "status": {"incomplete": false, "nonResourceRules": [], "resourceRules": rules}}))
    }

    /// What carries one label of one value, and does not carry others. A list by anything else is how a watch begins.
    fn list(&self, path: &str, query: &str) -> Answer {
        let label = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector=")).unwrap_or_default();
        let label = label.replace("%2F", "/").replace("%3D", "=").replace("%2C", ",").replace("%21", "!");
        let mut parts = label.split(',');
        let first = parts.next().and_then(|first| first.split_once('='));
        let (key, value) = first.ok_or((503, "ServiceUnavailable"))?;
        let absent: Vec<&str> = parts.filter_map(|part| part.strip_prefix('!')).collect();
        let prefix = format!("{path}/");
        let is_found =
            |labels: &Value| labels[key] == value && absent.iter().all(|key| labels.get(key).is_none());
        let found = self
            .objects
            .iter()
            .filter(|(path, object)| path.starts_with(&prefix) && is_found(&object["metadata"]["labels"]));
        let items: Vec<Value> = found.map(|(_, object)| partial(object)).collect();
        Ok(json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                  "metadata": {"resourceVersion": self.version.to_string()}, "items": items}))
    }

    fn patch(&mut self, path: &str, body: &Value) -> Answer {
        let (path, is_status) = path.strip_suffix("/status").map_or((path, false), |path| (path, true));
        let mut object = self.objects.get(path).cloned().ok_or((404, "NotFound"))?;
        let expected = &body["metadata"]["resourceVersion"];
        if !expected.is_null() && *expected != object["metadata"]["resourceVersion"] {
            return Err((409, "Conflict"));
        }
        let parts: &[&str] = if is_status { &["status"] } else { &["metadata", "spec"] };
        for (part, change) in body.as_object().into_iter().flatten() {
            if parts.contains(&part.as_str()) {
                merge(&mut object, &json!({part: change}));
            }
        }
        // A rule on what is not of its type cannot be evaluated, and is not passed over even if nothing changed.
        let namespaces = &object["spec"]["targets"]["namespaces"];
        if !namespaces.is_null() && !namespaces.is_array() {
            return Err((422, "Invalid"));
        }
        let goes = !object["metadata"]["deletionTimestamp"].is_null()
            && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if goes {
            return Ok(self.objects.remove(path).unwrap_or_default());
        }
        let uid = object["metadata"]["uid"].clone();
        Ok(self.store(path, object, Some(uid)))
    }

    fn store(&mut self, path: &str, mut object: Value, uid: Option<Value>) -> Value {
        self.version += 1;
        object["metadata"]["uid"] = uid.unwrap_or_else(|| json!(format!("uid-{}", self.version)));
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (field, value) in fields {
        if value.is_null() {
            into.as_object_mut().map(|into| into.remove(field));
        } else {
            merge(&mut into[field], value);
        }
    }
}
