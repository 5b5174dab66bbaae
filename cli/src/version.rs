//! `weaver version`: the version of each part, as the cluster shows them; and of a release, where an address of one is
//! configured. Asks the API server, that address, and no one else.

mod cluster;
mod published;
mod report;
mod show;
mod webhook;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use weaver_diagnostics::exit_code::{INTERNAL, KNOWN_BAD, USAGE};
use weaver_diagnostics::version_gap::gaps;

pub use self::cluster::programs;
use self::published::FoundRelease;
pub use self::report::all_parts;
use self::report::{ClusterVersions, PublishedRelease, VersionReport};
use crate::connection;
use crate::status::{Known, StatusFormat};
use crate::stdout::{json_text, note, print};
use crate::verify::read_key;
use crate::verify::release::NotAsPublished;

/// The version of this program.
pub const WEAVER: &str = env!("CARGO_PKG_VERSION");

#[derive(Args)]
pub struct VersionOptions {
    /// Ask no cluster
    #[arg(long)]
    client: bool,
    /// Address of a directory that has the newest release, such as `https://HOST/latest` [default: ask no one]
    #[arg(long, value_name = "URL", env = "WEAVER_RELEASES", hide_env_values = true)]
    releases: Option<String>,
    /// Public key of minisign that must have signed that release: a file, or the key itself
    #[arg(long, value_name = "PUBKEY", env = "WEAVER_RELEASES_KEY", requires = "releases")]
    key: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: StatusFormat,
}

pub async fn run(options: &VersionOptions) -> anyhow::Result<ExitCode> {
    let key = options.key.as_deref().map(read_key).transpose()?;
    let address = options.releases.as_deref().map(|text| published::address(text, key.is_some())).transpose();
    let address = match address {
        Ok(address) => address,
        Err(why) => {
            note!("error: --releases (WEAVER_RELEASES): {why}");
            return Ok(USAGE.into());
        }
    };
    let release = async { Some(published::look(address.as_ref()?, key.as_ref()).await) };
    let cluster = async { if options.client { None } else { Some(reached().await.into()) } };
    let (release, cluster) = tokio::join!(release, cluster);
    let code = match &release {
        Some(Err(error)) if error.is::<NotAsPublished>() => KNOWN_BAD.into(),
        Some(Err(_)) => INTERNAL.into(),
        _ => ExitCode::SUCCESS,
    };
    let versions = reported(release, cluster);
    let text = match options.output {
        StatusFormat::Table => show::text(&versions),
        StatusFormat::Json => json_text(&versions, "the versions")?,
    };
    print(&text)?;
    Ok(code)
}

async fn reached() -> anyhow::Result<ClusterVersions> {
    cluster::read(&connection::client().await?).await
}

fn reported(
    release: Option<anyhow::Result<FoundRelease>>,
    cluster: Option<Known<ClusterVersions>>,
) -> VersionReport {
    let programs = match &cluster {
        Some(Known::Is(cluster)) => Some(&cluster.programs),
        _ => None,
    };
    let parts = all_parts(WEAVER, programs);
    let release = release.map(|found| {
        let found = found.and_then(|found| {
            PublishedRelease::of(found, WEAVER, &parts)
                .context("its version cannot be compared with this one")
        });
        found.into()
    });
    VersionReport { weaver: WEAVER, release, too_far_behind: gaps(&parts), cluster }
}
