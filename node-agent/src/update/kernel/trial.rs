//! A trial with its record, its programs and its boot partition.

use anyhow::Context as _;
use weaver_diagnostics::finding::Code;
use weaver_diagnostics::kernel_trial::record::{KernelTrial, TrialFacts, TrialPhase};

use super::boot::TrialBoot;
use crate::boot_files;
use crate::facts::kernel;
use crate::host_root::HostRoot;
use crate::update::programs::ProgramSource;
use crate::update::run::UpdateRun;
use crate::upgrade::journal::{Journal, Recorded};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Recorded for KernelTrial {
    const NAME: &str = "kernel.json";
    const WHAT: &str = "a trial of a kernel";
    const INTERRUPTED: Code = Code::UpdateInterrupted;

    fn has_ended(&self) -> bool {
        self.has_ended()
    }
}

/// A trial, or its completion.
pub(super) struct KernelUpdate<'a> {
    pub(super) update: &'a UpdateRun,
    pub(super) journal: &'a Journal<KernelTrial>,
    /// With all sources of apt: a kernel is not ours.
    pub(super) programs: ProgramSource,
    pub(super) boot: TrialBoot<'a>,
}

impl<'a> KernelUpdate<'a> {
    pub(super) fn new(update: &'a UpdateRun, journal: &'a Journal<KernelTrial>) -> Self {
        let host = &update.host;
        let programs = host.programs.with_all_sources();
        Self { update, journal, programs, boot: TrialBoot::of(&host.root) }
    }

    pub(super) fn note(&self, record: &mut KernelTrial, phase: TrialPhase) -> anyhow::Result<()> {
        record.phase = phase;
        self.journal.note(record)
    }

    /// Writes down why it is not to be started again.
    pub(super) fn note_refused(&self, record: &mut KernelTrial, why: &str) -> anyhow::Result<()> {
        record.refused = Some(why.to_owned());
        self.note(record, TrialPhase::Refused)
    }
}

pub(super) fn running(root: &HostRoot) -> anyhow::Result<String> {
    kernel::release(root).context("the release of the running kernel is not known")
}

pub(super) fn facts(root: &HostRoot) -> anyhow::Result<TrialFacts> {
    let boot = root.read_if_possible(BOOT_ID).with_context(|| format!("cannot read {BOOT_ID}"))?;
    Ok(TrialFacts {
        boot: boot.text.trim().to_owned(),
        running: running(root)?,
        is_trial: boot_files::is_trial(root),
    })
}
