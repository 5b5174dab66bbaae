//! `weaver token`: each ServiceToken, which keeps a Secret filled with fresh tokens. No token is ever shown.

use std::process::ExitCode;

use clap::Subcommand;

use crate::resource::kind::Kind;
use crate::resource::{self, token_flags};

#[derive(Subcommand)]
pub enum TokenVerb {
    /// Create a ServiceToken from flags or from a manifest; never overwrites one
    Create(token_flags::TokenFlags),
    #[command(flatten)]
    Resource(resource::ResourceVerb),
}

pub async fn run(verb: TokenVerb) -> anyhow::Result<ExitCode> {
    match verb {
        TokenVerb::Create(options) => token_flags::run(&options).await,
        TokenVerb::Resource(verb) => resource::run(Kind::ServiceToken, verb).await,
    }
}
