//! The command `backup`: makes one, also for the timer, or shows one.

use anyhow::{Context as _, bail, ensure};
use weaver_diagnostics::exit_code;

use super::args::BackupArgs;
use super::common::refused;
use super::schedule;
use super::seal::Seal;
use super::show;
use super::{BackupRequest, reported, to};
use crate::host::Host;
use crate::upgrade::say;

/// Runs `backup`; returns the exit code of the process.
///
/// # Errors
/// It could not be made.
pub async fn run(args: BackupArgs) -> anyhow::Result<u8> {
    let host: Host = args.host.into();
    let state_dir = args.state_dir;
    let done = match (args.show, args.target) {
        (Some(file), _) => {
            let scratch = host.root.real(state_dir);
            let keys = args.keys;
            tokio::task::spawn_blocking(move || show::show(&file, &keys, &scratch))
                .await
                .context("cannot read the backup")?
                .map(|text| (text, exit_code::FINE))
        }
        (None, Some(target)) => {
            ensure!(
                args.keys.identity.is_none(),
                "--identity reads a backup: to encrypt one, name its recipient (--recipient age1…)"
            );
            let seal = Seal::of(&args.recipients, args.keys.passphrase_file.as_deref());
            let request = BackupRequest {
                program: host.root.real(&args.program),
                host,
                state_dir,
                target,
                volumes: args.volumes,
                keep: args.keep.map(usize::from),
                since: None,
                must_be_mounted: args.must_be_mounted,
                seal: Seal::Open,
            };
            match args.when {
                // What it lacks is in the node's report: the unit has made it.
                Some(when) => {
                    let made = schedule::made(request, seal, when, &args.recipients).await;
                    made.map(|text| (text, exit_code::FINE))
                }
                None => to(BackupRequest { seal: seal?, ..request }).await.map(|made| {
                    let is_whole = made.manifest.left_out.is_empty();
                    (reported(&made), if is_whole { exit_code::FINE } else { exit_code::INCOMPLETE })
                }),
            }
        }
        (None, None) => bail!("name a file or a directory"),
    };
    match done {
        Ok((text, code)) => {
            say(&text);
            Ok(code)
        }
        Err(error) => refused(error, "Nothing was written."),
    }
}
