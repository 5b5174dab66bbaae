//! `weaver-image fault-table`: the results of `make image-matrix`, as the table of docs/tutorials/faults.md.
//!
//! Each test of the matrix leaves its row as a file, also where the result is not the expected one, so that the table
//! shows both. Failure: a page without the two markers, or a run without rows, changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weaver_devstack::files;

use crate::page;

const PART: &str = "matrix";

#[derive(Debug, Clone, clap::Args)]
pub struct FaultTableOptions {
    /// Where the tests left their rows.
    #[arg(long)]
    pub rows: PathBuf,
    /// The page with the table.
    #[arg(long, default_value = "docs/tutorials/faults.md")]
    pub page: PathBuf,
    /// What was under test, as git named it when the run began.
    #[arg(long)]
    pub commit: String,
}

/// One fault and its result. Markdown, a line each.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct FaultRow {
    /// What was done to the card.
    pub fault: String,
    /// Codes and stopped units that it should show.
    pub expected: String,
    /// Those that it showed.
    pub observed: String,
    /// What a laptop reads on the card meanwhile.
    pub on_card: String,
    /// What was printed, and typed.
    pub typed: String,
    /// What was so afterwards.
    pub then: String,
}

impl FaultRow {
    /// Leaves the row in `dir`, under a name that orders the table.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, dir: &Path, name: &str) -> Result<()> {
        files::make_dir(dir)?;
        let text = serde_json::to_vec_pretty(self).context("a row is JSON")?;
        files::replace(&dir.join(name).with_extension("json"), &text, 0o644)
    }
}

/// Writes the rows into the page.
///
/// # Errors
/// When there are no rows, one cannot be read, or the page has no markers for them.
pub fn run(options: &FaultTableOptions) -> Result<ExitCode> {
    let rows = rows(&options.rows)?;
    let seen = format!("Seen at {} on {}.", options.commit, jiff::Timestamp::now().strftime("%Y-%m-%d"));
    page::replace(&options.page, PART, &table(&seen, &rows))?;
    println!("{} rows into {}", rows.len(), options.page.display());
    Ok(ExitCode::SUCCESS)
}

fn rows(dir: &Path) -> Result<Vec<FaultRow>> {
    let found = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths = found.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    if paths.is_empty() {
        bail!("{} holds no rows; `make image-matrix` makes them", dir.display());
    }
    let read = |path: &PathBuf| {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no row", path.display()))
    };
    paths.iter().map(read).collect()
}

fn table(seen: &str, rows: &[FaultRow]) -> String {
    let mut table = format!(
        "{seen}\n\n| fault | expected | observed | the card in a laptop | what helps, commands as printed | then |\n\
         |---|---|---|---|---|---|\n"
    );
    for row in rows {
        let FaultRow { fault, expected, observed, on_card, typed, then } = row;
        let observed = if observed == expected { "the same" } else { observed.as_str() };
        let cells = [fault, expected, observed, on_card, typed, then].map(page::cell);
        table.extend(["| ", &cells.join(" | "), " |\n"]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(observed: &str) -> FaultRow {
        FaultRow {
            fault: "a | b".into(),
            expected: "N-01".into(),
            observed: observed.into(),
            ..FaultRow::default()
        }
    }

    #[test]
    fn what_differs_is_reported_and_what_does_not_is_short() {
        let text = table("Seen.", &[row("N-01"), row("N-02")]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[4], "| a \\| b | N-01 | the same |  |  |  |");
        assert_eq!(lines[5], "| a \\| b | N-01 | N-02 |  |  |  |");
    }

    #[test]
    fn rows_come_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        assert!(format!("{:#}", rows(dir.path()).unwrap_err()).contains("make image-matrix"));
        row("second").keep(dir.path(), "20-b").unwrap();
        row("first").keep(dir.path(), "10-a").unwrap();
        let seen: Vec<_> = rows(dir.path()).unwrap().into_iter().map(|row| row.observed).collect();
        assert_eq!(seen, ["first", "second"]);
        fs::write(dir.path().join("30-c.json"), "{").unwrap();
        assert!(format!("{:#}", rows(dir.path()).unwrap_err()).contains("30-c.json is no row"));
    }
}
