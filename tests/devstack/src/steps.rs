//! What a person sees: one line per step, with its time.

use std::fmt::Display;
use std::io::Write;
use std::time::Instant;

/// Prints each step when it is done, with the time it took.
pub struct Steps {
    last: Instant,
}

impl Steps {
    /// Begins to measure.
    #[must_use]
    pub fn begin() -> Self {
        Self { last: Instant::now() }
    }

    /// A step is done; its time is counted since the one before it.
    pub fn done(&mut self, what: &str, detail: impl Display) {
        say(format_args!("{}", line(self.last.elapsed().as_secs_f64(), what, &detail.to_string())));
        self.last = Instant::now();
    }
}

/// Prints a line. That nobody reads it (`make up | head`) is no reason to stop.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn line(seconds: f64, what: &str, detail: &str) -> String {
    format!("{seconds:6.1} s  {what:<22} {detail}").trim_end().to_owned()
}

/// A table with columns as wide as their widest cell.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_step_and_detail() {
        assert_eq!(line(1.25, "API server ready", "x"), "   1.2 s  API server ready       x");
        assert_eq!(line(0.0, "done", ""), "   0.0 s  done");
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["A".to_owned(), "B".to_owned()], vec!["longer".to_owned(), "ä".to_owned()]];
        assert_eq!(table(&rows), "A       B\nlonger  ä\n");
        assert_eq!(table(&[]), "");
    }
}
