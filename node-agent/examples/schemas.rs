//! Writes `docs/schema/`, for `make generate`.

use std::fs;

use weaver_node_agent::schemas;

fn main() -> std::io::Result<()> {
    for (name, schema) in schemas::all() {
        fs::write(format!("docs/schema/{name}"), schemas::text(&schema))?;
    }
    Ok(())
}
