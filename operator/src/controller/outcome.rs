//! What one reconcile found and did, and what follows from it: the part that is the same for each of our kinds. Pure.

use std::time::Duration;

use weaver_api::conditions::{AUTHORIZED, CONFLICTED, MIGRATED, PAUSED, READY, Truth, Verdict};
use weaver_api::validate::SpecFault;
use weaver_tenant::token::MintError;

use super::pause;
use super::verdicts::{listed, migrated, unauthorized};
use crate::args::RunOptions;

/// After which time a resource is compared again whose spec says none that could be used.
const RESYNC: Duration = Duration::from_mins(10);

/// Message of the condition `Paused` while the spec itself asks for it.
pub const NOTHING_IS_WRITTEN: &str = "nothing is written; if the resource is deleted now, its copies stay";

/// One reconcile of a resource that is not being deleted.
#[derive(Debug)]
pub enum Reconciled<W> {
    /// It is paused by hand, or everything is. Why, and how that ends.
    Paused(String),
    /// The object cannot be read. What the parser said, by field.
    ParseFailed(Vec<String>),
    /// The spec cannot be acted upon.
    InvalidSpec(Vec<SpecFault>),
    /// The spec asks to be left alone.
    Suspended,
    /// What the spec asks for is not possible: why, and whether that may pass.
    Unable { reason: &'static str, message: String, passes: bool },
    /// No token for the tenant's account.
    NoToken(MintError),
    /// The work was tried.
    Worked(Box<W>),
}

/// What was done for a resource as the tenant, and what its kind calls that.
pub trait TenantWork {
    /// The types of condition about the work, besides [`AUTHORIZED`] and [`CONFLICTED`]. The last one is the goal.
    const ABOUT: &'static [&'static str];
    /// Reason of `Ready` where all is well.
    const DONE: &'static str;
    /// What the tenant's account is called.
    const ACCOUNT: &'static str;

    /// The conditions about it, those first that explain the others.
    fn verdicts(&self) -> Vec<Verdict>;

    /// The condition `Paused`, where the spec lets nothing be written.
    fn paused(&self) -> Option<Verdict> {
        None
    }

    /// Of the conditions that are not as they should be, the one that explains the others.
    fn cause<'a>(in_the_way: &[&'a Verdict]) -> Option<&'a Verdict> {
        in_the_way.first().copied()
    }

    /// Is there something that another reconcile may cure without any event that would announce the cure?
    fn wants_retry(&self) -> bool;

    /// The time after which a retry is due, whatever the back-off says.
    fn retry_within(&self) -> Option<Duration> {
        None
    }

    /// The time after which an unchanged resource is compared again.
    fn resync(&self, options: &RunOptions) -> Duration;
}

impl<W: TenantWork> Reconciled<W> {
    /// What was done, where something was.
    pub fn work(&self) -> Option<&W> {
        if let Self::Worked(work) = self { Some(work) } else { None }
    }

    /// Could the object be read?
    pub fn is_understood(&self) -> bool {
        !matches!(self, Self::ParseFailed(_))
    }

    /// Is there something that another reconcile may cure without any event that would announce the cure? A
    /// right may be granted and an account created without our seeing it; a spec cannot change unseen.
    pub fn wants_retry(&self) -> bool {
        match self {
            Self::Paused(_) | Self::ParseFailed(_) | Self::InvalidSpec(_) | Self::Suspended => false,
            Self::NoToken(_) => true,
            Self::Unable { passes, .. } => *passes,
            Self::Worked(work) => work.wants_retry(),
        }
    }

    /// The time after which an unchanged resource is compared again.
    pub fn resync(&self, options: &RunOptions) -> Duration {
        self.work().map_or_else(|| options.resync.unwrap_or(RESYNC), |work| work.resync(options))
    }

    /// As conditions, one of each type. `annotation_faults` is what is wrong with the content that conversion carries.
    pub fn verdicts(&self, annotation_faults: &[String]) -> Vec<Verdict> {
        let mut verdicts = match self {
            Self::ParseFailed(faults) => {
                refused::<W>("ParseFailed", &format!("the object cannot be parsed: {}", listed(faults)))
            }
            Self::InvalidSpec(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                refused::<W>("InvalidSpec", &faults.join("; "))
            }
            Self::Suspended => refused::<W>("Suspended", "spec.suspend is true"),
            Self::Unable { reason, message, .. } => refused::<W>(reason, message),
            Self::Paused(why) => refused::<W>("Paused", why),
            Self::NoToken(error) => no_token::<W>(error),
            Self::Worked(work) => work.verdicts(),
        };
        verdicts.push(self.paused());
        verdicts.push(match self {
            Self::ParseFailed(_) => Verdict::new(MIGRATED, Truth::Unknown, "ParseFailed", ""),
            Self::InvalidSpec(faults) => migrated(faults, annotation_faults),
            _ => migrated(&[], annotation_faults),
        });
        verdicts.insert(0, ready::<W>(&verdicts));
        verdicts
    }

    /// A deletion leaves the copies while the spec or a pause lets nothing be written ([`weaver_copies::finalizers`]).
    fn paused(&self) -> Verdict {
        match self {
            Self::Suspended => Verdict::new(PAUSED, Truth::True, "Suspended", NOTHING_IS_WRITTEN),
            Self::Paused(why) => pause::verdict(Some(why)),
            other => other.work().and_then(TenantWork::paused).unwrap_or_else(|| pause::verdict(None)),
        }
    }
}

/// `Ready` is the first thing in the way, or that there is none.
fn ready<W: TenantWork>(others: &[Verdict]) -> Verdict {
    let wanted = |kind| if [CONFLICTED, PAUSED].contains(&kind) { Truth::False } else { Truth::True };
    let in_the_way: Vec<&Verdict> =
        others.iter().filter(|verdict| verdict.truth != wanted(verdict.kind)).collect();
    if let Some(cause) = W::cause(&in_the_way) {
        return Verdict::new(READY, Truth::False, cause.reason, cause.message.clone());
    }
    let goal = others.iter().find(|verdict| Some(&verdict.kind) == W::ABOUT.last());
    Verdict::new(READY, Truth::True, W::DONE, goal.map_or_else(String::new, |goal| goal.message.clone()))
}

/// Nothing was looked at, because of the object itself.
fn refused<W: TenantWork>(reason: &'static str, why: &str) -> Vec<Verdict> {
    let message = format!("{why}; no object was changed");
    let about = W::ABOUT.iter().map(|&kind| {
        let truth = if Some(&kind) == W::ABOUT.last() { Truth::False } else { Truth::Unknown };
        Verdict::new(kind, truth, reason, message.clone())
    });
    let authorized = Verdict::new(AUTHORIZED, Truth::Unknown, reason, message.clone());
    about.chain([authorized, Verdict::new(CONFLICTED, Truth::Unknown, reason, "")]).collect()
}

fn no_token<W: TenantWork>(error: &MintError) -> Vec<Verdict> {
    let authorized = unauthorized(error);
    let unknown = |&kind| {
        let why = format!("not checked: no token for the {}", W::ACCOUNT);
        Verdict::new(kind, Truth::Unknown, authorized.reason, why)
    };
    let others: Vec<Verdict> = W::ABOUT.iter().chain(&[CONFLICTED]).map(unknown).collect();
    [vec![authorized.clone()], others].concat()
}
