//! What an expression says of two scrapes of the same programs, as Prometheus would say it.
//!
//! An increase is what has come between the two scrapes, whatever the range says; it is not extrapolated to the range, so
//! a threshold is met by what really was counted. `histogram_quantile` is for panels and not evaluated.

use std::collections::{BTreeMap, BTreeSet};

use super::{Expr, Matcher, Selector};
use crate::exposition::Sample;

/// What is known when an expression is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Scrapes<'a> {
    /// What was told first.
    pub before: &'a [Sample],
    /// What is told now.
    pub now: &'a [Sample],
    /// Seconds between the two.
    pub seconds: f64,
    /// Seconds since 1970, now.
    pub time: f64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Scalar(f64),
    /// A number for each series; an alert fires when there is one.
    Vector(Vec<Sample>),
}

impl Scrapes<'_> {
    /// Does an alert of this expression fire?
    ///
    /// # Errors
    /// Something in it is not evaluated here.
    pub fn fire(self, expr: &Expr) -> Result<bool, String> {
        match self.evaluate(expr)? {
            Value::Vector(samples) => Ok(!samples.is_empty()),
            Value::Scalar(_) => Err("an alert of a number without series".into()),
        }
    }

    fn evaluate(self, expr: &Expr) -> Result<Value, String> {
        match expr {
            Expr::Number(number) => Ok(Value::Scalar(*number)),
            Expr::Selector(Selector { range: Some(_), .. }) => {
                Err("a range outside of rate and increase".into())
            }
            Expr::Selector(selector) => Ok(Value::Vector(selected(self.now, selector))),
            Expr::Call(function, arguments) => self.call(function, arguments),
            Expr::Aggregate(operator, by, of) => {
                Ok(Value::Vector(aggregated(operator, by, &vector(self.evaluate(of)?)?)))
            }
            Expr::Binary(left, operator, right) => {
                binary(self.evaluate(left)?, operator, self.evaluate(right)?)
            }
        }
    }

    fn call(self, function: &str, arguments: &[Expr]) -> Result<Value, String> {
        match (function, arguments) {
            ("time", []) => Ok(Value::Scalar(self.time)),
            ("vector", [Expr::Number(number)]) => Ok(Value::Vector(vec![unnamed(BTreeMap::new(), *number)])),
            ("absent", [of]) => {
                let none = vector(self.evaluate(of)?)?.is_empty();
                Ok(Value::Vector(none.then(|| unnamed(BTreeMap::new(), 1.0)).into_iter().collect()))
            }
            ("increase", [Expr::Selector(of)]) if of.range.is_some() => Ok(Value::Vector(self.increase(of))),
            ("rate", [Expr::Selector(of)]) if of.range.is_some() => {
                let mut rates = self.increase(of);
                for rate in &mut rates {
                    rate.value /= self.seconds;
                }
                Ok(Value::Vector(rates))
            }
            _ => Err(format!("{function} of {arguments:?} is not evaluated here")),
        }
    }

    /// What has come since; a counter that is less than it was began anew. Of a series that is told for the first time
    /// nothing is known.
    fn increase(self, of: &Selector) -> Vec<Sample> {
        let before = selected(self.before, of);
        let since = |now: &Sample| {
            let then = before.iter().find(|then| then.labels == now.labels)?;
            let come = if now.value < then.value { now.value } else { now.value - then.value };
            Some(unnamed(now.labels.clone(), come))
        };
        selected(self.now, of).iter().filter_map(since).collect()
    }
}

fn unnamed(labels: BTreeMap<String, String>, value: f64) -> Sample {
    Sample { name: String::new(), labels, value }
}

fn vector(value: Value) -> Result<Vec<Sample>, String> {
    match value {
        Value::Vector(samples) => Ok(samples),
        Value::Scalar(number) => Err(format!("the number {number} where series were expected")),
    }
}

fn selected(samples: &[Sample], selector: &Selector) -> Vec<Sample> {
    let fits = |sample: &&Sample| {
        let matched = |matcher: &Matcher| {
            let found = sample.labels.get(&matcher.label).map_or("", String::as_str);
            matcher.values.iter().any(|value| Matcher::names(value, found)) != matcher.is_negated
        };
        sample.name == selector.name && selector.matchers.iter().all(matched)
    };
    samples.iter().filter(fits).cloned().collect()
}

fn aggregated(operator: &str, by: &[String], samples: &[Sample]) -> Vec<Sample> {
    let mut groups: BTreeMap<BTreeMap<String, String>, f64> = BTreeMap::new();
    for sample in samples {
        let labels = sample.labels.iter().filter(|(label, _)| by.contains(label));
        let labels = labels.map(|(label, value)| (label.clone(), value.clone())).collect();
        let join = |all: f64| match operator {
            "max" => all.max(sample.value),
            "min" => all.min(sample.value),
            _ => all + sample.value,
        };
        groups.entry(labels).and_modify(|all| *all = join(*all)).or_insert(sample.value);
    }
    groups.into_iter().map(|(labels, value)| unnamed(labels, value)).collect()
}

fn binary(left: Value, operator: &str, right: Value) -> Result<Value, String> {
    let labels = |samples: &[Sample]| -> BTreeSet<BTreeMap<String, String>> {
        samples.iter().map(|sample| sample.labels.clone()).collect()
    };
    let samples = match (left, right) {
        (Value::Vector(left), Value::Vector(right)) => match operator {
            "and" => left.into_iter().filter(|sample| labels(&right).contains(&sample.labels)).collect(),
            "unless" => left.into_iter().filter(|sample| !labels(&right).contains(&sample.labels)).collect(),
            "or" => {
                let had = labels(&left);
                let more = right.into_iter().filter(|sample| !had.contains(&sample.labels));
                left.into_iter().chain(more).collect()
            }
            _ => {
                let pair = |one: Sample| {
                    let other = right.iter().find(|other| other.labels == one.labels)?;
                    counted(one.value, operator, other.value).map(|value| unnamed(one.labels, value))
                };
                left.into_iter().filter_map(pair).collect()
            }
        },
        (Value::Vector(left), Value::Scalar(right)) => left
            .into_iter()
            .filter_map(|one| counted(one.value, operator, right).map(|value| unnamed(one.labels, value)))
            .collect(),
        (Value::Scalar(left), Value::Vector(right)) if ["+", "-", "*", "/"].contains(&operator) => right
            .into_iter()
            .filter_map(|one| counted(left, operator, one.value).map(|value| unnamed(one.labels, value)))
            .collect(),
        (Value::Scalar(left), Value::Scalar(right)) if ["+", "-", "*", "/"].contains(&operator) => {
            return counted(left, operator, right).map(Value::Scalar).ok_or_else(|| "no number".into());
        }
        (left, right) => {
            return Err(format!("{operator} between {left:?} and {right:?} is not evaluated here"));
        }
    };
    Ok(Value::Vector(samples))
}

/// The result; of a comparison the left side, where it is so.
#[allow(clippy::float_cmp, reason = "as Prometheus compares")]
fn counted(left: f64, operator: &str, right: f64) -> Option<f64> {
    let when = |is_so: bool| is_so.then_some(left);
    match operator {
        "+" => Some(left + right),
        "-" => Some(left - right),
        "*" => Some(left * right),
        "/" => Some(left / right),
        "==" => when(left == right),
        "!=" => when(left != right),
        "<=" => when(left <= right),
        ">=" => when(left >= right),
        "<" => when(left < right),
        ">" => when(left > right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::samples;
    use crate::promql::parse;

    const BEFORE: &str = "leads{i=\"1\"} 1\ndone_total{c=\"2xx\"} 5\ndone_total{c=\"5xx\"} 9\n";
    const NOW: &str = "leads{i=\"1\"} 1\nleads{i=\"2\"} 0\ndone_total{c=\"2xx\"} 7\ndone_total{c=\"5xx\"} 4\ndone_total{c=\"none\"} 4\n";

    #[test]
    fn an_alert_fires_where_a_series_is_left() {
        let (before, now) = (samples(BEFORE), samples(NOW));
        let scrapes = Scrapes { before: &before, now: &now, seconds: 2.0, time: 100.0 };
        for (text, fires) in [
            ("max(leads) < 1 or absent(leads)", false),
            ("max(gone) < 1 or absent(gone)", true),
            ("max(gone) < 1", false),
            ("sum(leads) > 1", false),
            ("sum(leads) >= 1", true),
            ("min(leads) == 0", true),
            ("leads{i=\"2\"} == 0", true),
            ("leads{i!=\"2\"} == 0", false),
            ("sum by (i) (leads) > 1", false),
            // 2 more, and 4 since it began anew; what is told for the first time is no increase.
            ("sum(increase(done_total[5m])) == 6", true),
            ("sum(rate(done_total{c=~\"2.+\"}[5m])) == 1", true),
            ("sum(increase(done_total{c=\"none\"}[5m])) or vector(0)", true),
            ("sum(increase(done_total{c=\"5xx\"}[5m])) > (sum(increase(gone[5m])) or vector(0))", true),
            ("sum(leads) > 2 * sum(leads) - 1", false),
            ("done_total{c=\"2xx\"} and done_total{c=\"none\"}", false),
            ("done_total unless done_total{c=\"2xx\"}", true),
            ("(leads > 0) < time() - 98", true),
        ] {
            assert_eq!(scrapes.fire(&parse(text).unwrap()), Ok(fires), "{text}");
        }
    }

    #[test]
    fn what_is_not_evaluated_is_refused() {
        let scrapes = Scrapes { before: &[], now: &[], seconds: 1.0, time: 1.0 };
        for text in ["1", "leads[5m]", "rate(leads)", "histogram_quantile(1, leads)", "1 > 2", "max(1)"] {
            assert!(scrapes.fire(&parse(text).unwrap()).is_err(), "{text}");
        }
    }
}
