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
                Some(when) => schedule::made(request, seal, when, &args.recipients).await,
                None => to(BackupRequest { seal: seal?, ..request }).await.map(|made| reported(&made)),
            }
        }
        (None, None) => bail!("name a file or a directory"),
    };
    match done {
        Ok(text) => {
            say(&text);
            Ok(exit_code::FINE)
        }
        Err(error) => refused(error, "Nothing was written."),
    }
}
