//! `make down`: ends what `make up` started, and nothing else.
//!
//! Guarantee: known by pid and start time, or by the stack's mark. Data stays.
//! Failure: names what does not end.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::files;
use crate::layout::{LOCK_PATIENCE, Layout};
use crate::process::{self, Process};
use crate::steps::{Steps, say};

/// The agent gives its operator ten seconds; it gets a little more itself.
const AGENT_GRACE: Duration = Duration::from_secs(12);

/// Ends the stack in `dir`.
///
/// # Errors
/// When something does not end.
pub fn down(dir: &Path) -> Result<()> {
    let Some(layout) = Layout::existing(dir)? else {
        say(format_args!("nothing runs: there is no {}", dir.display()));
        return Ok(());
    };
    let _lock = layout.lock(LOCK_PATIENCE)?;
    let mut steps = Steps::begin();
    let ended = end_all_but(None, &layout)?;
    for file in [layout.pid_file("agent"), layout.pid_file("server"), layout.server_record()] {
        files::remove(&file)?;
    }
    match ended {
        0 => say(format_args!("nothing runs in {}", dir.display())),
        count => steps.done("stopped", format!("{count} processes; the data stays in {}", dir.display())),
    }
    Ok(())
}

/// Ends every process of the stack but one; how many were ended.
///
/// # Errors
/// When something does not end.
pub fn end_all_but(keep: Option<Process>, layout: &Layout) -> Result<usize> {
    let named = |name| Process::from_file(&layout.pid_file(name));
    let (agent, server) = (named("agent")?, named("server")?);
    let mut all = process::marked(layout.dir());
    all.extend(
        [agent, server].into_iter().flatten().filter(|known| !all.contains(known)).collect::<Vec<_>>(),
    );
    all.retain(|found| Some(*found) != keep);
    // The agent first: it ends its operator in an orderly way. The API server
    // last: operator and agent still have something to tell it.
    let (first, rest): (Vec<_>, Vec<_>) = all.iter().partition(|found| Some(**found) == agent);
    let (last, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|found| Some(*found) == server);
    for (group, grace) in [(first, AGENT_GRACE), (others, process::GRACE), (last, process::GRACE)] {
        process::end(&group, grace)?;
    }
    Ok(all.len())
}
