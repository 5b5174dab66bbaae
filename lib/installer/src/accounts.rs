//! The admission policy by which only who may impersonate a ServiceAccount can name it:
//! `deploy/admission/accounts.yaml`, which has the rules and their reasons.

use super::guard::Guard;
use super::report::InstallError;

const MANIFEST: &str = include_str!("../../../deploy/admission/accounts.yaml");

/// Of the policy and of its binding.
pub const NAME: &str = "weaver-accounts";

/// As this program was built with them.
///
/// # Errors
/// The manifest does not parse; a test keeps that from being built.
pub fn built_in() -> Result<Guard, InstallError> {
    Guard::parse(MANIFEST)
}

#[cfg(test)]
mod tests;
