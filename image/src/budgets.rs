//! `weaver-image budgets`: what `make soak` measured, as a table and pictures in docs/explanation/performance.md.
//!
//! Each test leaves its rows, also where a budget is exceeded, which the table shows. Failure: a page without its two
//! markers, or a run without rows, changes nothing.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weaver_devstack::files;

use crate::page;

const PART: &str = "soak";

#[derive(Debug, Clone, clap::Args)]
pub struct BudgetOptions {
    /// Where the tests left their rows and pictures.
    #[arg(long)]
    pub measured: PathBuf,
    /// The page with the table.
    #[arg(long, default_value = "docs/explanation/performance.md")]
    pub page: PathBuf,
    /// Where its pictures are.
    #[arg(long, default_value = "docs/images")]
    pub pictures: PathBuf,
    /// What was measured, as git named it when the run began.
    #[arg(long)]
    pub commit: String,
}

/// One figure. Markdown, a line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureRow {
    pub what: String,
    pub measured: String,
    /// The limit, and whether it is met; `None` without a limit.
    pub budget: Option<FigureBudget>,
}

/// What a figure may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureBudget {
    #[serde(alias = "words")]
    pub limit: String,
    /// Whether the figure is within.
    pub kept: bool,
}

impl FigureRow {
    /// Whether a budget is exceeded.
    pub fn exceeds(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| !budget.kept)
    }
}

/// Leaves rows in `dir`, under a name that orders the table.
///
/// # Errors
/// When they cannot be written.
pub fn keep(rows: &[FigureRow], dir: &Path, name: &str) -> Result<()> {
    files::make_dir(dir)?;
    let text = serde_json::to_vec_pretty(rows).context("rows are JSON")?;
    files::replace(&dir.join(name).with_extension("json"), &text, 0o644)
}

/// Writes rows and pictures to the page.
///
/// # Errors
/// When there are no rows, one cannot be read, or the page has no markers for them.
pub fn run(options: &BudgetOptions) -> Result<ExitCode> {
    let BudgetOptions { measured, page, pictures, commit } = options;
    let mut rows = Vec::new();
    for path in left(measured, "json")? {
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let of_one: Vec<FigureRow> =
            serde_json::from_slice(&text).with_context(|| format!("{} holds no rows", path.display()))?;
        rows.extend(of_one);
    }
    if rows.is_empty() {
        bail!("{} holds no rows; `make soak` makes them", measured.display());
    }
    let seen = format!("Measured at {commit} on {}.", jiff::Timestamp::now().strftime("%Y-%m-%d"));
    page::replace(page, PART, &table(&seen, &rows))?;
    files::make_dir(pictures)?;
    for picture in left(measured, "svg")? {
        let content = fs::read(&picture).with_context(|| format!("cannot read {}", picture.display()))?;
        let name = picture.file_name().context("a picture has a name")?;
        files::replace(&pictures.join(name), &content, 0o644)?;
    }
    println!("{} rows into {}", rows.len(), page.display());
    Ok(ExitCode::SUCCESS)
}

/// The files of a kind, in the order of their names.
fn left(dir: &Path, kind: &str) -> Result<Vec<PathBuf>> {
    let found = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths = found.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension() == Some(OsStr::new(kind)));
    paths.sort();
    Ok(paths)
}

fn table(seen: &str, rows: &[FigureRow]) -> String {
    let mut table = format!("{seen}\n\n| what | measured | budget | kept |\n|---|---|---|---|\n");
    for FigureRow { what, measured, budget } in rows {
        let (limit, kept) = match budget {
            None => ("", ""),
            Some(FigureBudget { limit, kept }) => (limit.as_str(), if *kept { "yes" } else { "**no**" }),
        };
        let cells = [what, measured, limit, kept].map(page::cell);
        table.extend(["| ", &cells.join(" | "), " |\n"]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, kept: Option<bool>) -> FigureRow {
        let budget = kept.map(|kept| FigureBudget { limit: "< 5 %".into(), kept });
        FigureRow { what: what.into(), measured: "4 %".into(), budget }
    }

    #[test]
    fn a_budget_that_is_exceeded_strikes_the_eye() {
        let rows = [row("a", Some(true)), row("b", Some(false)), row("c", None)];
        let text = table("Measured.", &rows);
        let lines: Vec<_> = text.lines().skip(4).collect();
        assert_eq!(lines, ["| a | 4 % | < 5 % | yes |", "| b | 4 % | < 5 % | **no** |", "| c | 4 % |  |  |"]);
        assert_eq!(rows.map(|row| row.exceeds()), [false, true, false]);
    }

    #[test]
    fn rows_and_pictures_get_to_their_places() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let options = BudgetOptions {
            measured: at("measured"),
            page: at("page.md"),
            pictures: at("images"),
            commit: "abc".into(),
        };
        fs::create_dir(&options.measured).unwrap();
        fs::write(&options.page, "before\n<!-- soak: begin -->\nold\n<!-- soak: end -->\n").unwrap();
        let error = format!("{:#}", run(&options).unwrap_err());
        assert!(error.ends_with("holds no rows; `make soak` makes them"), "{error}");
        assert!(fs::read_to_string(&options.page).unwrap().contains("\nold\n"));

        keep(&[row("second", None)], &options.measured, "20-b").unwrap();
        keep(&[row("first", None)], &options.measured, "10-a").unwrap();
        fs::write(options.measured.join("boot.svg"), "<svg/>").unwrap();
        run(&options).unwrap();
        let page = fs::read_to_string(&options.page).unwrap();
        assert!(page.contains("Measured at abc on ") && !page.contains("old"), "{page}");
        assert!(page.find("| first |").unwrap() < page.find("| second |").unwrap(), "{page}");
        assert_eq!(fs::read_to_string(options.pictures.join("boot.svg")).unwrap(), "<svg/>");
    }
}
