//! The published schemas of the agent's output for programs: `docs/schema/`; `make generate` writes it.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};

use crate::{node_report::Report, publish::page::NodeStatus, report::CheckReport};

/// Name and schema of each file.
#[must_use]
pub fn all() -> [(&'static str, Schema); 3] {
    [
        (
            "check.json",
            schema::<CheckReport<'_>>(
                "What `weaver-node-agent check -o json` and `preflight -o json` print.",
            ),
        ),
        ("report.json", schema::<Report>("`/run/weaver/report.json`: the last report of the node agent.")),
        ("node-status.json", schema::<NodeStatus<'_>>("`node-status.json` on the boot partition.")),
    ]
}

/// The content of its file.
#[must_use]
pub fn text(schema: &Schema) -> String {
    format!("{:#}\n", schema.as_value())
}

fn schema<T: JsonSchema>(what: &str) -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.insert("description".to_owned(), what.into());
    schema
}
