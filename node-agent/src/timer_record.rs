//! The result of a timer's last run, in a file of the state directory.
//!
//! Another version may have written it: what a record lacks has its default, and what is new in it is ignored. So no
//! field of a record ever changes its type.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weaver_host::durable_file;

/// `None` where there is none, or none that can be parsed: the next run replaces it.
pub fn read<T: DeserializeOwned>(record: &Path) -> anyhow::Result<Option<T>> {
    let text = durable_file::found(std::fs::read(record));
    let text = text.with_context(|| format!("cannot read {}", record.display()))?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

/// Writes the record.
pub fn note<T: Serialize>(record: &Path, last: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string(last).context("writing JSON")? + "\n";
    let noted = durable_file::replace(record, text.as_bytes(), 0o644);
    noted.with_context(|| format!("cannot record the result in {}", record.display()))
}
