//! Writes that can be undone together, in reverse order, unless they are kept.
//!
//! Guarantees: each undo carries uid and `resourceVersion` of the object that it was judged by, so what others changed in
//! between is left alone, and said. Nothing is undone unseen: each write has its [`Undone`].
//!
//! What cannot be undone: a deletion that waits for finalizers; the uid and the status of an object that is created again,
//! and what the garbage collector has deleted with it; finalizers and owner references; a write whose answer was lost.

mod plan;

use std::fmt::{self, Debug};

use kube::api::{DeleteParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use self::plan::{After, Plan, Written, plan, value};
use crate::error::{Error, Refusal, Why};
use crate::merge_patch::{content, difference, merged, overtaken};
use crate::objects::{ATTEMPTS, Conflicts, Objects, Updated, Write, pause};

/// Writes, and what was there before each of them.
///
/// Dropped, it keeps what was written: a destructor cannot send a request and wait for its answer. Call [`Self::undo`], or
/// have [`scope`] do it.
#[derive(Default)]
#[must_use = "dropped, it keeps what was written: call undo() or keep()"]
pub struct Rollback {
    steps: Vec<Step>,
}

/// One write.
struct Step {
    objects: Objects<DynamicObject>,
    name: String,
    written: Written,
    /// By a server-side apply.
    is_apply: bool,
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

/// What became of one write.
#[derive(Debug)]
pub struct Undone {
    /// The object: `ConfigMap team-a/settings`.
    pub object: String,
    /// What was done.
    pub outcome: Outcome,
}

/// What undoing a write did.
#[derive(Debug)]
pub enum Outcome {
    /// The object did not exist before, and its deletion has begun.
    Deleted,
    /// Content, labels and annotations are what they were before.
    Restored,
    /// The same, but for this field, which another field manager has set, too.
    RestoredBut(String),
    /// The object was created again, with a new uid.
    Created,
    /// Nothing, and why: somebody else has changed the object since, or there was nothing to undo.
    Nothing(String),
    /// It failed.
    Failed(Error),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => f.write_str("it did not exist before and was deleted again"),
            Self::Restored => f.write_str("what it was before is restored"),
            Self::RestoredBut(field) => {
                write!(f, "what it was before is restored but for {field}, which somebody else has set, too")
            }
            Self::Created => f.write_str("it was created again"),
            Self::Nothing(why) => write!(f, "nothing was undone: {why}"),
            Self::Failed(error) => write!(f, "what it was before could not be restored: {error}"),
        }
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.outcome)
    }
}

/// What the kinds of written objects have to be.
pub trait Kind: Resource + Clone + DeserializeOwned + Debug {}
impl<K: Resource + Clone + DeserializeOwned + Debug> Kind for K {}

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
    pub async fn create<K: Kind>(
        &mut self,
        objects: &Objects<K>,
        name: &str,
        object: &impl Serialize,
    ) -> Result<K, Error> {
        let untyped = objects.untyped();
        self.begin(&untyped, name, None, false);
        let created = untyped.create(name, object, Write::Persist).await;
        typed(objects, &self.end(created, is)?)
    }

    /// Applies an object, as [`Objects::apply`], but only to what was read just before: where others are faster, it is
    /// read and applied again.
    ///
    /// # Errors
    /// As there, and [`Why::Contended`].
    pub async fn apply<K: Kind>(
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
            let applied = match self.end(untyped.apply(name, &object, Write::Persist, conflicts).await, is) {
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
    pub async fn update<K: Kind + Serialize, S: Serialize, E: From<Error>>(
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
        let updated = untyped.update(first, Write::Persist, |current| {
            let known = typed(objects, current)?;
            let Some(wanted) = change(&known).map_err(Failed::Change)? else { return Ok(None) };
            if let Some(step) = steps.last_mut() {
                step.written.before = Some(current.clone());
            }
            let failed = |_| objects.error("changing", &name, Why::Unsendable("it is not valid JSON".into()));
            let known = serde_json::to_value(&known).map_err(failed)?;
            let wanted = serde_json::to_value(&wanted).map_err(failed)?;
            Ok(Some(merged(value(current), &difference(&known, &wanted))))
        });
        let updated: Result<_, Failed<E>> = updated.await;
        match updated {
            Ok(Updated::Changed(object)) => Ok(Updated::Changed(typed(objects, &self.end(Ok(object), is)?)?)),
            Ok(Updated::Unchanged(object)) => {
                self.steps.pop();
                Ok(Updated::Unchanged(typed(objects, &object)?))
            }
            Err(Failed::Call(error)) => Err(self.failed(error).into()),
            Err(Failed::Change(error)) => {
                self.steps.pop();
                Err(error)
            }
        }
    }

    /// Deletes the very object that was seen (by uid), as it is right before. One that is gone by now is as good.
    ///
    /// # Errors
    /// As [`Objects::delete`], [`Why::Replaced`], and [`Why::Contended`].
    pub async fn delete<K: Kind>(
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

    /// A write stays in the list until it is undone, so that whoever is stopped in between can go on.
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
        let written = Written { before, after: After::Unknown, manager: objects.manager().to_owned() };
        self.steps.push(Step { objects: objects.clone(), name: name.to_owned(), written, is_apply });
    }

    /// Notes its answer.
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

impl Step {
    async fn undo(&self) -> Outcome {
        for attempt in 0..ATTEMPTS {
            pause(attempt).await;
            let now = match self.objects.get(&self.name).await {
                Ok(now) => now,
                Err(error) => return Outcome::Failed(error),
            };
            let done = match (plan(&self.written, now.as_ref()), now) {
                (Plan::Nothing(why), _) => return Outcome::Nothing(why),
                (Plan::Create(object), _) => {
                    self.objects.create(&self.name, &object, Write::Persist).await.map(|_| Outcome::Created)
                }
                (Plan::Delete, Some(now)) => {
                    let params =
                        DeleteParams { preconditions: Some(exactly(&now)), ..DeleteParams::default() };
                    self.objects.delete(&now, params).await.map(|()| Outcome::Deleted)
                }
                (Plan::Restore(wanted), Some(now)) => self.restore(&now, &wanted).await,
                // Both are about an object that is there.
                (Plan::Delete | Plan::Restore(_), None) => continue,
            };
            match done {
                Ok(outcome) => return outcome,
                Err(error) => match error.refusal() {
                    Some(Refusal::Conflict | Refusal::ObjectMissing | Refusal::Exists) => {}
                    _ => return Outcome::Failed(error),
                },
            }
        }
        Outcome::Nothing(format!("somebody else changed it each of {ATTEMPTS} times"))
    }

    /// An apply is undone by an apply: what it added goes, since nobody else owns it, and the next apply meets no field of
    /// another owner.
    async fn restore(&self, now: &DynamicObject, wanted: &Value) -> Result<Outcome, Error> {
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
            self.objects.apply(&self.name, &object, Write::Persist, Conflicts::Force).await?
        } else {
            let object = merged(current.clone(), &difference(&content(&current), wanted));
            self.objects.replace(&self.name, &object, Write::Persist).await?
        };
        let restored = content(&value(&restored));
        Ok(overtaken(&restored, wanted, &difference(&restored, wanted))
            .map_or(Outcome::Restored, Outcome::RestoredBut))
    }
}

/// Why an update failed.
enum Failed<E> {
    Call(Error),
    /// The caller's own function.
    Change(E),
}

impl<E> From<Error> for Failed<E> {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

fn is(object: &DynamicObject) -> After {
    After::Is(Box::new(object.clone()))
}

fn exactly(object: &DynamicObject) -> Preconditions {
    Preconditions { uid: object.uid(), resource_version: object.resource_version() }
}

fn typed<K: Kind>(objects: &Objects<K>, object: &DynamicObject) -> Result<K, Error> {
    let name = object.name_any();
    serde_json::from_value(value(object))
        .map_err(|error| objects.error("reading", &name, Why::from(kube::Error::SerdeError(error))))
}

/// The error of a [`scope`], and what became of what was written before it.
#[derive(Debug)]
pub struct RolledBack<E> {
    /// Why the body ended.
    pub error: E,
    /// The last write first.
    pub undone: Vec<Undone>,
}

impl<E: fmt::Display> fmt::Display for RolledBack<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        self.undone.iter().try_for_each(|undone| write!(f, "; {undone}"))
    }
}

impl<E: std::error::Error> std::error::Error for RolledBack<E> {}

/// Runs `body`, and undoes what it wrote through the [`Rollback`] unless it ends well.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use std::time::Duration;
/// # use weaver_client::rollback::{RolledBack, Rollback, scope};
/// # use weaver_client::{Conflicts, Error, Objects, Progress};
/// async fn both(maps: &Objects<ConfigMap>, first: &ConfigMap, second: &ConfigMap) -> Result<(), RolledBack<Error>> {
///     scope(async |writes: &mut Rollback| {
///         writes.apply(maps, "first", first, Conflicts::Refuse).await?;
///         // If this one is refused, the first is as it was before.
///         writes.apply(maps, "second", second, Conflicts::Refuse).await?;
///         Ok(())
///     })
///     .await
/// }
/// ```
///
/// If the future is dropped before it ends (a timeout, `select!`, a panic in `body`), the undoing is spawned on the current
/// tokio runtime: nobody sees its result, and a runtime that is shut down takes it along. A write that was being sent then
/// has no known answer, and is left alone. Where that is not enough, call [`Rollback::undo`] yourself.
///
/// # Errors
/// That of `body`, with what was undone.
pub async fn scope<T, E>(body: impl AsyncFnOnce(&mut Rollback) -> Result<T, E>) -> Result<T, RolledBack<E>> {
    let mut guard = Guard(Rollback::new());
    match body(&mut guard.0).await {
        Ok(result) => {
            guard.0.steps.clear();
            Ok(result)
        }
        Err(error) => {
            let undone = guard.0.undo_all().await;
            Err(RolledBack { error, undone })
        }
    }
}

/// Undoes in the background what is left when a scope is dropped.
struct Guard(Rollback);

impl Drop for Guard {
    fn drop(&mut self) {
        let mut rollback = std::mem::take(&mut self.0);
        if rollback.steps.is_empty() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { rollback.undo_all().await });
        }
    }
}
