//! Writes that can be undone together, in reverse order, unless they are kept.
//!
//! Guarantees: each undo carries uid and `resourceVersion` of the object that it was judged by, so what others
//! changed in between is left alone, and said. Nothing is undone unseen: each write has its [`Undone`].
//!
//! What cannot be undone: a deletion that waits for finalizers; the uid and the status of an object that is
//! created again, and what the garbage collector has deleted with it; finalizers and owner references; a write
//! whose answer was lost.

mod plan;
mod scope;
mod undo;

use std::fmt::Debug;

use kube::api::DeleteParams;
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use self::plan::{After, UndoEntry, value};
use self::undo::{UndoStep, exactly};
use crate::error::{Error, Why};
use crate::merge_patch::{difference, merged};
use crate::objects::{ATTEMPTS, Conflicts, Objects, Updated, WriteMode, pause};

pub use self::scope::{RolledBack, scope};
pub use self::undo::{UndoOutcome, Undone};

/// Writes, and what was there before each of them.
///
/// Dropped, it keeps what was written: a destructor cannot send a request and wait for its answer. Call
/// [`Self::undo`], or have [`scope`] do it.
#[derive(Default)]
#[must_use = "dropped, it keeps what was written: call undo() or keep()"]
pub struct Rollback {
    steps: Vec<UndoStep>,
}

/// What an apply did.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied<K> {
    /// There was no such object.
    Created(K),
    /// There was, and it is another by now.
    Changed(K),
    /// It was so already.
    Unchanged(K),
}

impl<K> Applied<K> {
    /// The object as it is now.
    pub fn into_object(self) -> K {
        match self {
            Self::Created(object) | Self::Changed(object) | Self::Unchanged(object) => object,
        }
    }
}

/// What the kinds of written objects have to be.
pub trait WritableObject: Resource + Clone + DeserializeOwned + Debug {}
impl<K: Resource + Clone + DeserializeOwned + Debug> WritableObject for K {}

impl Rollback {
    /// Nothing is written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps what was written.
    pub fn keep(mut self) {
        self.steps.clear();
    }

    /// The objects that were written, in order.
    #[must_use]
    pub fn written(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.objects.key(&step.name)).collect()
    }

    /// Creates an object, as [`Objects::create`].
    ///
    /// # Errors
    /// As there.
    pub async fn create<K: WritableObject>(
        &mut self,
        objects: &Objects<K>,
        name: &str,
        object: &impl Serialize,
    ) -> Result<K, Error> {
        let untyped = objects.untyped();
        self.begin(&untyped, name, None, false);
        let created = untyped.create(name, object, WriteMode::Persist).await;
        typed(objects, &self.end(created, is)?)
    }

    /// Applies an object, as [`Objects::apply`], but only to what was read just before: where others are faster, it is
    /// read and applied again.
    ///
    /// # Errors
    /// As there, and [`Why::Contended`].
    pub async fn apply<K: WritableObject>(
        &mut self,
        objects: &Objects<K>,
        name: &str,
        object: &impl Serialize,
        conflicts: Conflicts,
    ) -> Result<Applied<K>, Error> {
        let untyped = objects.untyped();
        let mut object = serde_json::to_value(object)
            .map_err(|_| untyped.error("applying", name, Why::Unsendable("it is not valid JSON".into())))?;
        for attempt in 0..ATTEMPTS {
            pause(attempt).await;
            let before = untyped.get(name).await?;
            let version = before.as_ref().map(DynamicObject::resource_version);
            if let (Some(version), true) = (&version, object["metadata"].is_object()) {
                object["metadata"]["resourceVersion"] = json!(version);
            }
            self.begin(&untyped, name, before, true);
            let applied =
                match self.end(untyped.apply(name, &object, WriteMode::Persist, conflicts).await, is) {
                    Err(error) if error.is_conflict() => continue,
                    applied => applied?,
                };
            let is_same = version.as_ref() == Some(&applied.resource_version());
            let applied = typed(objects, &applied)?;
            return Ok(match version {
                None => Applied::Created(applied),
                Some(_) if is_same => Applied::Unchanged(applied),
                Some(_) => Applied::Changed(applied),
            });
        }
        Err(untyped.error("applying", name, Why::Contended(ATTEMPTS)))
    }

    /// Changes an object that was read, as [`Objects::update`]. Fields that `K` does not know stay.
    ///
    /// # Errors
    /// As there.
    pub async fn update<K: WritableObject + Serialize, S: Serialize, E: From<Error>>(
        &mut self,
        objects: &Objects<K>,
        seen: &K,
        mut change: impl FnMut(&K) -> Result<Option<S>, E>,
    ) -> Result<Updated<K>, E> {
        let (untyped, name) = (objects.untyped(), seen.name_any());
        let first = untyped.read(&name).await?;
        if first.uid() != seen.uid() {
            return Err(untyped.error("changing", &name, Why::Replaced).into());
        }
        self.begin(&untyped, &name, Some(first.clone()), false);
        let steps = &mut self.steps;
        let updated = untyped.update(first, WriteMode::Persist, |current| {
            let known = typed(objects, current)?;
            let Some(wanted) = change(&known).map_err(UpdateError::Change)? else { return Ok(None) };
            if let Some(step) = steps.last_mut() {
                step.written.before = Some(current.clone());
            }
            let failed = |_| objects.error("changing", &name, Why::Unsendable("it is not valid JSON".into()));
            let known = serde_json::to_value(&known).map_err(failed)?;
            let wanted = serde_json::to_value(&wanted).map_err(failed)?;
            Ok(Some(merged(value(current), &difference(&known, &wanted))))
        });
        let updated: Result<_, UpdateError<E>> = updated.await;
        match updated {
            Ok(Updated::Changed(object)) => Ok(Updated::Changed(typed(objects, &self.end(Ok(object), is)?)?)),
            Ok(Updated::Unchanged(object)) => {
                self.steps.pop();
                Ok(Updated::Unchanged(typed(objects, &object)?))
            }
            Err(UpdateError::Call(error)) => Err(self.failed(error).into()),
            Err(UpdateError::Change(error)) => {
                self.steps.pop();
                Err(error)
            }
        }
    }

    /// Deletes the very object that was seen (by uid), as it is right before. One that is gone by now is as good.
    ///
    /// # Errors
    /// As [`Objects::delete`], [`Why::Replaced`], and [`Why::Contended`].
    pub async fn delete<K: WritableObject>(
        &mut self,
        objects: &Objects<K>,
        seen: &K,
        params: DeleteParams,
    ) -> Result<(), Error> {
        let (untyped, name) = (objects.untyped(), seen.name_any());
        for attempt in 0..ATTEMPTS {
            pause(attempt).await;
            let Some(before) = untyped.get(&name).await? else { return Ok(()) };
            if before.uid() != seen.uid() {
                return Err(untyped.error("deleting", &name, Why::Replaced));
            }
            let params = DeleteParams { preconditions: Some(exactly(&before)), ..params.clone() };
            self.begin(&untyped, &name, Some(before.clone()), false);
            match self.end(untyped.delete(&before, params).await, |()| After::Deleted) {
                Err(error) if error.is_conflict() => {}
                done => return done,
            }
        }
        Err(untyped.error("deleting", &name, Why::Contended(ATTEMPTS)))
    }

    /// Undoes what was written, the last write first. A failure does not keep the others from being undone.
    pub async fn undo(mut self) -> Vec<Undone> {
        self.undo_all().await
    }

    /// A write stays in the list until it is undone, so that an interrupted caller can continue.
    async fn undo_all(&mut self) -> Vec<Undone> {
        let mut undone = Vec::new();
        while let Some(step) = self.steps.last() {
            undone.push(Undone { object: step.objects.key(&step.name), outcome: step.undo().await });
            self.steps.pop();
        }
        undone
    }

    /// Notes a write before it is sent: a program that is stopped in between knows what it may have done.
    fn begin(
        &mut self,
        objects: &Objects<DynamicObject>,
        name: &str,
        before: Option<DynamicObject>,
        is_apply: bool,
    ) {
        let written = UndoEntry { before, after: After::Unknown, manager: objects.manager().to_owned() };
        self.steps.push(UndoStep { objects: objects.clone(), name: name.to_owned(), written, is_apply });
    }

    /// Notes the answer of the last step; one that was refused needs no undoing and is forgotten.
    fn end<T>(&mut self, answer: Result<T, Error>, after: impl FnOnce(&T) -> After) -> Result<T, Error> {
        match answer {
            Ok(answer) => {
                if let Some(step) = self.steps.last_mut() {
                    step.written.after = after(&answer);
                }
                Ok(answer)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Notes that it failed: what was refused needs no undoing.
    fn failed(&mut self, error: Error) -> Error {
        if !error.may_be_done() {
            self.steps.pop();
        }
        error
    }
}

/// Why an update failed.
enum UpdateError<E> {
    Call(Error),
    /// The caller's own function.
    Change(E),
}

impl<E> From<Error> for UpdateError<E> {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

fn is(object: &DynamicObject) -> After {
    After::Is(Box::new(object.clone()))
}

fn typed<K: WritableObject>(objects: &Objects<K>, object: &DynamicObject) -> Result<K, Error> {
    let name = object.name_any();
    serde_json::from_value(value(object))
        .map_err(|error| objects.error("reading", &name, Why::from(kube::Error::SerdeError(error))))
}
