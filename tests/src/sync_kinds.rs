//! Both kinds of syncs, for tests that hold for either: each has a sync `sync` that copies an object `settings`.

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::poll::eventually;
use crate::resources;
use crate::tenant::TARGET;
use crate::world::World;

/// The API group of the kind that a ResourceSync copies here.
const GROUP: &str = "gadgets.example.com";

/// A kind of sync, with what it copies in these tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SyncedKind {
    /// A ConfigMapSync of a `ConfigMap`.
    ConfigMap,
    /// A ResourceSync of a custom resource.
    Gadget,
}

impl SyncedKind {
    pub const BOTH: [Self; 2] = [Self::ConfigMap, Self::Gadget];

    /// The kind that is copied, as the programs name it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Gadget => "Gadget.gadgets.example.com",
        }
    }

    /// The same in the plural, as missing rights name it.
    pub fn several(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMaps",
            Self::Gadget => "gadgets.gadgets.example.com",
        }
    }

    /// Its page in `weaver ui`, below the prefix.
    pub fn page(self, team: &str) -> String {
        match self {
            Self::ConfigMap => format!("syncs/{team}/sync"),
            Self::Gadget => format!("resources/{team}/sync"),
        }
    }

    /// A field of the object, as a diff names it.
    pub fn field(self, name: &str) -> String {
        match self {
            Self::ConfigMap => format!("data.{name}"),
            Self::Gadget => format!("spec.{name}"),
        }
    }

    /// The kind of the sync.
    pub fn of_sync(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMapSync",
            Self::Gadget => "ResourceSync",
        }
    }

    /// Flags of `weaver sync create` for it.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::ConfigMap => &[],
            Self::Gadget => &["--kind", "Gadget", "--api-version", "gadgets.example.com/v1"],
        }
    }

    /// Makes the copied kind known to the API server.
    pub async fn define(self, world: &World) {
        if self == Self::Gadget {
            resources::define(world, GROUP, "Gadget", "gadgets", &["v1"]).await;
        }
    }

    /// The same, and grants the tenant all rights on it in these namespaces.
    pub async fn grant(self, world: &World, team: &str, namespaces: &[&str]) {
        self.define(world).await;
        match self {
            Self::ConfigMap => {
                for namespace in namespaces {
                    world.grant(team, namespace, &TARGET).await;
                }
            }
            Self::Gadget => resources::grant(world, team, namespaces, GROUP, "gadgets").await,
        }
    }

    /// Creates or changes the object, the source in the tenant's namespace, so that it has these fields and no others.
    pub async fn object(self, world: &World, namespace: &str, fields: &[(&str, &str)]) {
        match self {
            Self::ConfigMap => drop(world.config_map(namespace, "settings", fields).await),
            Self::Gadget => {
                let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget",
                                    "metadata": {"name": "settings"}, "spec": spec_of(fields)});
                let params = PatchParams::apply("a-person").force();
                let patched =
                    gadgets(world, namespace).patch("settings", &params, &Patch::Apply(&object)).await;
                drop(patched.unwrap());
            }
        }
    }

    /// The usual spec: the source to `targets`.
    pub fn spec(self, world: &World, team: &str, targets: &[&str]) -> Value {
        match self {
            Self::ConfigMap => world.spec(team, targets),
            Self::Gadget => resources::spec(team, &format!("{GROUP}/v1"), "Gadget", "settings", targets),
        }
    }

    /// Creates or changes the sync.
    pub async fn sync(self, world: &World, team: &str, spec: Value) {
        match self {
            Self::ConfigMap => drop(world.sync(team, "sync", spec).await),
            Self::Gadget => resources::sync(world, team, "sync", spec).await,
        }
    }

    /// Waits until a condition of the sync is so.
    pub async fn condition(self, world: &World, team: &str, kind: &str, status: &str, reason: &str) {
        match self {
            Self::ConfigMap => drop(world.condition(team, "sync", kind, status, reason).await),
            Self::Gadget => drop(resources::condition(world, team, "sync", kind, status, reason).await),
        }
    }

    /// Waits until `namespace` has the object with exactly these fields.
    pub async fn holds(self, world: &World, namespace: &str, fields: &[(&str, &str)]) {
        match self {
            Self::ConfigMap => drop(world.holds(namespace, "settings", fields).await),
            Self::Gadget => {
                let wanted = Value::Object(spec_of(fields));
                drop(resources::shows(&gadgets(world, namespace), "settings", "/spec", &wanted).await);
            }
        }
    }

    /// Waits until `namespace` does not have it.
    pub async fn lacks(self, world: &World, namespace: &str) {
        match self {
            Self::ConfigMap => world.lacks(namespace, "settings").await,
            Self::Gadget => {
                let objects = gadgets(world, namespace);
                eventually(&format!("Gadget {namespace}/settings is gone"), || async {
                    objects.get_opt("settings").await.unwrap().map_or(Ok(()), Err)
                })
                .await;
            }
        }
    }
}

fn gadgets(world: &World, namespace: &str) -> kube::Api<DynamicObject> {
    resources::objects(world, &format!("{GROUP}/v1"), "Gadget", "gadgets", namespace)
}

fn spec_of(fields: &[(&str, &str)]) -> Map<String, Value> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}
