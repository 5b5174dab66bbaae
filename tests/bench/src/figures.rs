//! What was measured, next to its floor and its budget. Pure.

use serde::Serialize;
use weaver_host::table::{line, widths};

/// A limit that the project has set itself: docs/explanation/performance.md.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Budget {
    /// The median is at most this.
    AtMost(f64),
    /// The median is at most this many times the floor's.
    TimesFloor(f64),
    /// The median is at most this much over the floor's.
    OverFloor(f64),
}

/// One thing, measured several times.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub what: String,
    pub unit: &'static str,
    pub rounds: Vec<f64>,
    /// The bare client's, in the same rounds; empty where there is nothing to compare with.
    pub floor: Vec<f64>,
    /// What was asked for.
    pub budget: Option<Budget>,
}

impl Figure {
    /// Without floor and budget.
    pub fn new(what: impl Into<String>, unit: &'static str, rounds: Vec<f64>) -> Self {
        Self { what: what.into(), unit, rounds, floor: Vec::new(), budget: None }
    }

    /// With the bare client's.
    pub fn compared_to(self, floor: Vec<f64>) -> Self {
        Self { floor, ..self }
    }

    /// With what was asked for.
    pub fn within(self, budget: Budget) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// The median of the rounds.
    pub fn median(&self) -> f64 {
        median(&self.rounds)
    }

    /// Is it within its budget?
    pub fn holds(&self) -> Option<bool> {
        let (own, floor) = (self.median(), median(&self.floor));
        Some(match self.budget? {
            Budget::AtMost(most) => own <= most,
            Budget::TimesFloor(most) => own <= most * floor,
            Budget::OverFloor(most) => own - floor <= most,
        })
    }

    /// A row of the table: what, median and spread, floor, against the floor, budget, whether it is kept.
    pub fn row(&self) -> [String; 6] {
        let unit = self.unit;
        let (own, floor) = (self.median(), median(&self.floor));
        let baseline = (!self.floor.is_empty()).then(|| format!("{} {unit}", spread(&self.floor)));
        let against = (!self.floor.is_empty()).then(|| match self.budget {
            Some(Budget::OverFloor(_)) => format!("{} {unit}", signed(own - floor)),
            _ => format!("× {:.2}", own / floor),
        });
        let budget = self.budget.map(|budget| match budget {
            Budget::AtMost(most) => format!("≤ {most} {unit}"),
            Budget::TimesFloor(most) => format!("≤ × {most}"),
            Budget::OverFloor(most) => format!("≤ +{most} {unit}"),
        });
        let kept = self.holds().map(|holds| if holds { "yes" } else { "NO" }.to_owned());
        [
            self.what.clone(),
            format!("{} {unit}", spread(&self.rounds)),
            baseline.unwrap_or_default(),
            against.unwrap_or_default(),
            budget.unwrap_or_default(),
            kept.unwrap_or_default(),
        ]
    }
}

/// A count as a figure.
pub fn count(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The middle one, or the mean of the middle two; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.len() < 2 || least.total_cmp(&most).is_eq() {
        return short(median(values));
    }
    format!("{} ({}–{})", short(median(values)), short(least), short(most))
}

fn signed(value: f64) -> String {
    if value < 0.0 { format!("−{}", short(-value)) } else { format!("+{}", short(value)) }
}

/// Three digits or so.
fn short(value: f64) -> String {
    // What is added makes a 0 of a -0.
    let value = (value * 10.0).round() / 10.0 + 0.0;
    if value.fract().abs() < 1e-9 || value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// The rows as a table in Markdown, which is as readable on a terminal.
pub fn table(figures: &[Figure]) -> String {
    let head = ["what", "measured: median (spread)", "bare client", "against it", "budget", "kept"]
        .map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(figures.iter().map(Figure::row)).collect();
    let widths = widths(rows.iter().map(<[String; 6]>::as_slice));
    let line = |row: &[String; 6]| format!("| {} |\n", line(row, &widths, " | "));
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut lines = rows.iter().map(line);
    let head = lines.next().unwrap_or_default();
    format!("{head}|{}|\n{}", rule.join("|"), lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_one() {
        for (values, expected) in
            [(vec![], 0.0), (vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![1.0, 2.0], 1.5)]
        {
            assert!((median(&values) - expected).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn a_budget_is_kept_or_not() {
        let figure = |budget| Figure::new("x", "ms", vec![12.0]).compared_to(vec![10.0]).within(budget);
        for (budget, expected) in [
            (Budget::AtMost(12.0), true),
            (Budget::AtMost(11.9), false),
            (Budget::TimesFloor(1.2), true),
            (Budget::TimesFloor(1.1), false),
            (Budget::OverFloor(2.0), true),
            (Budget::OverFloor(1.9), false),
        ] {
            assert_eq!(figure(budget).holds(), Some(expected), "{budget:?}");
        }
        assert_eq!(Figure::new("x", "ms", vec![1.0]).holds(), None);
    }

    #[test]
    fn a_table_has_a_row_for_each_figure() {
        let figures = [
            Figure::new("last copy", "ms", vec![120.0, 110.0, 130.0])
                .compared_to(vec![100.0])
                .within(Budget::TimesFloor(1.2)),
            Figure::new("writes", "", vec![0.0, 0.0]),
            Figure::new("grown", "MiB", vec![-0.01]),
        ];
        let table = table(&figures);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows.len(), 5);
        assert!(
            rows[2].contains("| 120 (110–130) ms")
                && rows[2].contains("| × 1.20")
                && rows[2].contains("| yes"),
            "{table}"
        );
        assert!(rows[3].contains("| 0 ") && rows[4].contains("| 0 MiB"), "{table}");
    }
}
