//! One write, and how it is undone, as decided in [`super::plan`].

use std::fmt;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions};
use kube::core::DynamicObject;
use serde_json::Value;

use super::plan::{UndoEntry, UndoPlan, plan, value};
use crate::error::{Error, Refusal};
use crate::merge_patch::{content, difference, merged, overtaken};
use crate::objects::{ATTEMPTS, Conflicts, Objects, WriteMode, pause};

pub(super) struct UndoStep {
    pub(super) objects: Objects<DynamicObject>,
    pub(super) name: String,
    pub(super) written: UndoEntry,
    /// By a server-side apply.
    pub(super) is_apply: bool,
}

/// What became of one write.
#[derive(Debug)]
pub struct Undone {
    /// The object: `ConfigMap team-a/settings`.
    pub object: String,
    /// What undoing this write did.
    pub outcome: UndoOutcome,
}

/// What undoing a write did.
#[derive(Debug)]
pub enum UndoOutcome {
    /// The object did not exist before, and its deletion has begun.
    Deleted,
    /// Content, labels and annotations are what they were before.
    Restored,
    /// The same, but for this field, which another field manager has set, too.
    RestoredBut(String),
    /// The object was created again, with a new uid.
    Created,
    /// Nothing, and why: someone else has changed the object since, or there was nothing to undo.
    Nothing(String),
    /// The object could not be read or written.
    Failed(Error),
}

impl fmt::Display for UndoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => f.write_str("it did not exist before and was deleted again"),
            Self::Restored => f.write_str("its previous state is restored"),
            Self::RestoredBut(field) => {
                write!(f, "its previous state is restored except {field}, which another client has also set")
            }
            Self::Created => f.write_str("it was created again"),
            Self::Nothing(why) => write!(f, "nothing was undone: {why}"),
            Self::Failed(error) => write!(f, "its previous state could not be restored: {error}"),
        }
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.outcome)
    }
}

impl UndoStep {
    pub(super) async fn undo(&self) -> UndoOutcome {
        for attempt in 0..ATTEMPTS {
            pause(attempt).await;
            let now = match self.objects.get(&self.name).await {
                Ok(now) => now,
                Err(error) => return UndoOutcome::Failed(error),
            };
            let done = match (plan(&self.written, now.as_ref()), now) {
                (UndoPlan::Nothing(why), _) => return UndoOutcome::Nothing(why),
                (UndoPlan::Create(object), _) => self
                    .objects
                    .create(&self.name, &object, WriteMode::Persist)
                    .await
                    .map(|_| UndoOutcome::Created),
                (UndoPlan::Delete, Some(now)) => {
                    let params =
                        DeleteParams { preconditions: Some(exactly(&now)), ..DeleteParams::default() };
                    self.objects.delete(&now, params).await.map(|()| UndoOutcome::Deleted)
                }
                (UndoPlan::Restore(wanted), Some(now)) => self.restore(&now, &wanted).await,
                // Both are about an object that is there.
                (UndoPlan::Delete | UndoPlan::Restore(_), None) => continue,
            };
            match done {
                Ok(outcome) => return outcome,
                Err(error) => match error.refusal() {
                    Some(Refusal::Conflict | Refusal::ObjectMissing | Refusal::Exists) => {}
                    _ => return UndoOutcome::Failed(error),
                },
            }
        }
        UndoOutcome::Nothing(format!("it changed at each of {ATTEMPTS} attempts"))
    }

    /// An apply is undone by an apply: what it added is removed, since it has no other owner, and the next apply finds
    /// no field of another owner.
    async fn restore(&self, now: &DynamicObject, wanted: &Value) -> Result<UndoOutcome, Error> {
        let current = value(now);
        let restored = if self.is_apply {
            let mut object = wanted.clone();
            for field in ["apiVersion", "kind"] {
                object[field] = current[field].clone();
            }
            for field in ["name", "namespace", "uid", "resourceVersion"] {
                if let Some(known) = current["metadata"].get(field) {
                    object["metadata"][field] = known.clone();
                }
            }
            self.objects.apply(&self.name, &object, WriteMode::Persist, Conflicts::Force).await?
        } else {
            let object = merged(current.clone(), &difference(&content(&current), wanted));
            self.objects.replace(&self.name, &object, WriteMode::Persist).await?
        };
        let restored = content(&value(&restored));
        Ok(overtaken(&restored, wanted, &difference(&restored, wanted))
            .map_or(UndoOutcome::Restored, UndoOutcome::RestoredBut))
    }
}

pub(super) fn exactly(object: &DynamicObject) -> Preconditions {
    Preconditions { uid: object.uid(), resource_version: object.resource_version() }
}
