//! `weaver crd`: prints the definitions this program was built with; needs no cluster.

use anyhow::Context as _;
use clap::Subcommand;

#[derive(Clone, Copy, Subcommand)]
pub enum Verb {
    /// Print the definitions as YAML, byte-equal to deploy/crds/
    Show,
}

pub fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Show => {
            let manifests: Vec<String> = weaver_api::crds::all()
                .iter()
                .map(weaver_api::crds::manifest)
                .collect::<Result<_, _>>()
                .context("writing a definition as YAML")?;
            print!("{}", manifests.join("---\n"));
            Ok(())
        }
    }
}
