//! For tests: as much of an API server as the installer asks for, in memory. It checks preconditions, notes
//! storage versions and counts writes as a real one does; what it is asked can be made to fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// What becomes of a request.
pub enum RequestFate {
    Answered,
    /// It is refused with this code and message, and nothing is done.
    Refused(u16, &'static str),
    /// It is done, and the answer is lost.
    Lost,
}

type Hook = Box<dyn FnMut(&mut Stored, &Method, &str) -> RequestFate + Send>;

#[derive(Default)]
pub struct Stored {
    pub definitions: BTreeMap<String, Value>,
    /// Admission policies, roles and the bindings of both, by `<plural>/<name>`.
    pub admission: BTreeMap<String, Value>,
    /// ConfigMapSyncs of the namespace `default` by name: the version that each is stored at, and its
    /// resourceVersion.
    pub objects: BTreeMap<String, (String, u64)>,
    /// Method and path of each request that would change something.
    pub writes: Vec<String>,
    /// Number of objects per page.
    pub page: usize,
    revision: u64,
}

/// The server; its clones are the same one.
#[derive(Clone)]
pub struct FakeApi {
    stored: Arc<Mutex<Stored>>,
    hook: Arc<Mutex<Hook>>,
}

impl FakeApi {
    pub fn new() -> Self {
        let stored = Stored { page: 500, ..Stored::default() };
        Self {
            stored: Arc::new(Mutex::new(stored)),
            hook: Arc::new(Mutex::new(Box::new(|_, _, _| RequestFate::Answered))),
        }
    }

    /// Decides from now on what becomes of each request, and may change what is stored before.
    pub fn hook(&self, hook: impl FnMut(&mut Stored, &Method, &str) -> RequestFate + Send + 'static) {
        *self.hook.lock().unwrap() = Box::new(hook);
    }

    /// Looks at what is stored, or changes it behind everybody's back.
    pub fn with<T>(&self, look: impl FnOnce(&mut Stored) -> T) -> T {
        look(&mut self.stored.lock().unwrap())
    }

    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                server.answer(&head.method, &head.uri, &body).ok_or("connection reset")
            }
        });
        Client::new(service, "default")
    }

    /// None where the answer is lost.
    fn answer(&self, method: &Method, uri: &http::Uri, body: &Value) -> Option<Response<Body>> {
        let mut stored = self.stored.lock().unwrap();
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let fate = (self.hook.lock().unwrap())(&mut stored, method, path);
        if *method != Method::GET && !query.contains("dryRun") {
            stored.writes.push(format!("{method} {path}"));
        }
        let (code, answer) = match fate {
            RequestFate::Refused(code, message) => failure(code, message),
            RequestFate::Answered => stored.answer(method, path, query, body),
            RequestFate::Lost => {
                stored.answer(method, path, query, body);
                return None;
            }
        };
        let body = Body::from(answer.to_string().into_bytes());
        Some(Response::builder().status(code).body(body).unwrap())
    }
}

impl Stored {
    /// Puts a definition there as if someone had.
    pub fn put(&mut self, mut definition: Value) {
        self.revision += 1;
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        let before = self.definitions.get(&name);
        let mut stored = before.map_or(json!([]), |before| before["status"]["storedVersions"].clone());
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let storage = versions.iter().find(|version| version["storage"] == true).unwrap()["name"].clone();
        if !stored.as_array().unwrap().contains(&storage) {
            stored.as_array_mut().unwrap().push(storage);
        }
        definition["metadata"]["generation"] = json!(self.revision);
        definition["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        definition["status"] = json!({
            "acceptedNames": {"kind": definition["spec"]["names"]["kind"], "plural": definition["spec"]["names"]["plural"]},
            "conditions": [condition("NamesAccepted", "True"), condition("Established", "True")],
            "storedVersions": stored,
        });
        self.definitions.insert(name, definition);
    }

    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (method.as_str(), parts.as_slice()) {
            ("GET", ["readyz"]) => (200, json!("ok")),
            ("GET", ["apis", "apiextensions.k8s.io", _, _, name]) => self.found(name),
            ("POST", ["apis", "apiextensions.k8s.io", _, _]) => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                if self.definitions.contains_key(&name) {
                    return failure(409, "already exists");
                }
                self.put(body.clone());
                self.found(&name)
            }
            (verb, ["apis", "apiextensions.k8s.io", _, _, name, status @ ..]) => {
                let Some(there) = self.definitions.get(*name) else { return failure(404, "not found") };
                if there["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return failure(409, "the object has been modified");
                }
                match (verb, status) {
                    ("PUT", []) => self.put(body.clone()),
                    ("PATCH", ["status"]) => {
                        let there = self.definitions.get_mut(*name).unwrap();
                        there["status"]["storedVersions"] = body["status"]["storedVersions"].clone();
                    }
                    _ => return failure(405, "no such verb"),
                }
                self.found(name)
            }
            (verb, ["apis", "admissionregistration.k8s.io" | "rbac.authorization.k8s.io", _, path @ ..]) => {
                self.admitting(verb, path, body)
            }
            // A creation, which is only ever a dry run here.
            ("POST", ["apis", ..]) => {
                let mut created = body.clone();
                created["metadata"]["name"] = json!("made-up");
                (201, created)
            }
            ("GET", ["apis", _, _, .., "configmapsyncs"]) => self.list(query),
            ("GET", ["apis", .., "configmapsyncs", name]) => self.object(name),
            ("PATCH", ["apis", .., "configmapsyncs", name]) => {
                let Some((version, revision)) = self.objects.get_mut(*name) else {
                    return failure(404, "not found");
                };
                if body["metadata"]["resourceVersion"] != json!(revision.to_string()) {
                    return failure(409, "the object has been modified");
                }
                if version != "v1beta1" {
                    self.revision += 1;
                    (*version, *revision) = ("v1beta1".into(), 1_000 + self.revision);
                }
                self.object(name)
            }
            _ => failure(404, "no such path"),
        }
    }

    fn admitting(&mut self, verb: &str, path: &[&str], body: &Value) -> (u16, Value) {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let key = if verb == "POST" { format!("{}/{name}", path[0]) } else { path.join("/") };
        match (verb, self.admission.get(&key)) {
            ("GET", Some(_)) => {}
            ("GET" | "PUT", None) => return failure(404, "not found"),
            ("POST", Some(_)) => return failure(409, "already exists"),
            ("PUT", Some(there))
                if there["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] =>
            {
                return failure(409, "the object has been modified");
            }
            _ => {
                self.revision += 1;
                let mut written = body.clone();
                written["metadata"]["resourceVersion"] = json!(self.revision.to_string());
                self.admission.insert(key.clone(), written);
            }
        }
        (200, self.admission[&key].clone())
    }

    fn found(&self, name: &str) -> (u16, Value) {
        self.definitions.get(name).map_or_else(|| failure(404, "not found"), |found| (200, found.clone()))
    }

    fn object(&self, name: &str) -> (u16, Value) {
        let Some((_, revision)) = self.objects.get(name) else { return failure(404, "not found") };
        let metadata = json!({"name": name, "namespace": "default", "resourceVersion": revision.to_string()});
        (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}))
    }

    fn list(&self, query: &str) -> (u16, Value) {
        let value = |key: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            pair.and_then(|text| text.parse::<usize>().ok())
        };
        let (start, size) = (value("continue").unwrap_or(0), value("limit").unwrap_or(500).min(self.page));
        let names = self.objects.keys().skip(start).take(size);
        let items: Vec<Value> = names.map(|name| self.object(name).1).collect();
        let left = self.objects.len() - (start + items.len()).min(self.objects.len());
        let metadata = if left > 0 {
            json!({"continue": (start + items.len()).to_string(), "remainingItemCount": left})
        } else {
            json!({})
        };
        let kind = "PartialObjectMetadataList";
        (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata, "items": items}))
    }
}

pub fn condition(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "A", "message": format!("{type_} is {status}"),
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": message, "reason": "Made", "code": code});
    (code, status)
}
