//! Rows of the table of budgets, kept for docs/explanation/performance.md, also where a budget is not.

use std::path::PathBuf;

use weaver_image::booted::BOOTED;
use weaver_image::budgets::{self, FigureBudget, FigureRow};

use super::bars::{self, Bar};

pub struct Measured {
    name: &'static str,
    rows: Vec<FigureRow>,
}

/// Next to the kept machine.
fn dir() -> PathBuf {
    let booted = std::env::var_os(BOOTED).expect("WEAVER_BOOTED is not set: run `make soak`");
    PathBuf::from(booted).join("budgets")
}

impl Measured {
    /// `name` orders the table.
    pub fn begin(name: &'static str) -> Self {
        Self { name, rows: Vec::new() }
    }

    /// A figure without a limit.
    pub fn row(&mut self, what: &str, measured: &str) {
        self.rows.push(FigureRow { what: what.to_owned(), measured: measured.to_owned(), budget: None });
    }

    pub fn budget(&mut self, what: &str, measured: &str, budget: &str, kept: bool) {
        self.row(what, measured);
        let budget = FigureBudget { limit: budget.to_owned(), kept };
        self.rows.last_mut().unwrap().budget = Some(budget);
    }

    /// Keeps the rows, replacing those of the same name.
    pub fn keep(&self) {
        budgets::keep(&self.rows, &dir(), self.name).unwrap();
    }

    /// Keeps the rows, then ends the test where a budget is exceeded.
    pub fn judge(self) {
        self.keep();
        let exceeded: Vec<_> = self.rows.iter().filter(|row| row.exceeds()).collect();
        assert!(exceeded.is_empty(), "{exceeded:#?}");
    }
}

pub fn draw(name: &str, title: &str, across: &str, of: &[Bar]) {
    std::fs::create_dir_all(dir()).unwrap();
    bars::draw(&dir().join(name), title, across, of).unwrap();
}

pub fn mib(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB)
}
