//! The rules a spec of v1beta1 must keep, in pure functions: [`validate`], [`validate_resource`]
//! and [`validate_token`].
//!
//! The API server judges only what is written, and by the schema of the version that a request names. So an
//! object that came from v1alpha1, or from the days of another schema, may be stored without keeping the
//! rules of v1beta1. Hence every rule of the generated schemas is repeated here, and a spec with a fault is
//! not acted upon at all. Every fault is found at once, in the order of the fields; nothing is guessed,
//! nothing panics.
//!
//! Stricter than the schemas, which cannot say it: keys of labels, annotations and renamings are possible
//! ones; what is renamed is also copied, and no two keys get one name; one name is not that of the copies of several
//! sources, and several are named only to be merged; a time is one that can be read
//! ([`ValidToken::not_before`]). Left to the parser: JSON types and unknown enum values. Left to the API
//! server: whether an `operator` is there at all, since it parses to `In`.
//!
//! `tests/rules.yaml` has an accepted and a refused object for each rule.

mod config_map_sync;
mod fault;
mod fields;
mod generate;
mod merge;
mod resource_sync;
mod service_token;
mod token;
mod valid_sync;
mod values;

pub use config_map_sync::validate;
pub use fault::SpecFault;
pub use generate::{ValidAccount, ValidGenerate};
pub use resource_sync::{KindName, ValidResource, validate_resource};
pub use service_token::{ValidServiceToken, validate_token};
pub use token::ValidToken;
pub use valid_sync::{CopyNames, Sources, ValidSync};
