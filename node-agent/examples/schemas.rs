//! Writes `docs/schema/`, the published schemas of the agent's output for programs, for `make generate`.

use std::fs;

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use weaver_node_agent::{node_report::Report, publish::page::NodeStatus, report::CheckReport};

fn main() -> std::io::Result<()> {
    for (name, schema) in all() {
        fs::write(format!("docs/schema/{name}"), text(&schema))?;
    }
    Ok(())
}

/// Name and schema of each file.
fn all() -> [(&'static str, Schema); 3] {
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
fn text(schema: &Schema) -> String {
    format!("{:#}\n", schema.as_value())
}

fn schema<T: JsonSchema>(what: &str) -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.insert("description".to_owned(), what.into());
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        for (name, made) in all() {
            let path = format!("{}/../docs/schema/{name}", env!("CARGO_MANIFEST_DIR"));
            assert!(fs::read_to_string(path).unwrap() == text(&made), "{name}: run `make generate`");
        }
    }
}
