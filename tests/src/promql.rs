//! The part of `PromQL` that our alerts and panels are written in, read into a tree.
//!
//! Whatever is not known here is refused with its place, so that nothing passes that was not understood. The crates that
//! read all of `PromQL` bring a generator of parsers with them, twenty crates for two files.

pub mod evaluate;

use std::iter::Peekable;
use std::str::CharIndices;

/// Functions that may be called.
const FUNCTIONS: [&str; 6] = ["absent", "histogram_quantile", "increase", "rate", "time", "vector"];

/// Aggregations.
const AGGREGATIONS: [&str; 3] = ["max", "min", "sum"];

/// Operators by how tightly they bind, the loosest first.
const LEVELS: [&[&str]; 5] =
    [&["or"], &["and", "unless"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/"]];

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// Series, or what they were over a time.
    Selector(Selector),
    /// A function of these.
    Call(String, Vec<Expr>),
    /// All series with the same values of these labels made one.
    Aggregate(String, Vec<String>, Box<Expr>),
    /// An operator between two.
    Binary(Box<Expr>, String, Box<Expr>),
}

/// Series by their name and labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// Name of the metric.
    pub name: String,
    /// What its labels have to be.
    pub matchers: Vec<Matcher>,
    /// Over a time, such as `5m`.
    pub range: Option<String>,
}

/// What a label has to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Matcher {
    /// The label.
    pub label: String,
    /// Or has not to be.
    pub is_negated: bool,
    /// One of these. `.+` at the end of one is anything that is not empty.
    pub values: Vec<String>,
}

impl Matcher {
    /// Is it such a value, be it wanted or not?
    #[must_use]
    pub fn names(value: &str, found: &str) -> bool {
        match value.strip_suffix(".+") {
            Some(begin) => found.len() > begin.len() && found.starts_with(begin),
            None => value == found,
        }
    }
}

impl Expr {
    /// Each selector in it.
    #[must_use]
    pub fn selectors(&self) -> Vec<&Selector> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Selector(selector) => vec![selector],
            Self::Call(_, arguments) => arguments.iter().flat_map(Self::selectors).collect(),
            Self::Aggregate(_, _, of) => of.selectors(),
            Self::Binary(left, _, right) => [left.selectors(), right.selectors()].concat(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Number(f64),
    Text(String),
    Sign(String),
}

/// Reads an expression.
///
/// # Errors
/// What is not understood, and after which words.
pub fn parse(text: &str) -> Result<Expr, String> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0 };
    let expr = parser.binary(0).map_err(|what| format!("{text}: {what}"))?;
    match parser.peek() {
        None => Ok(expr),
        Some(token) => Err(format!("{text}: {token:?} is left over")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some(&(at, char)) = chars.peek() {
        let token = match char {
            _ if char.is_whitespace() => {
                chars.next();
                continue;
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                Token::Word(run(&mut chars, |char| char.is_ascii_alphanumeric() || char == '_'))
            }
            '0'..='9' => {
                let run = run(&mut chars, |char| char.is_ascii_alphanumeric() || char == '.');
                run.parse().map_or(Token::Word(run), Token::Number)
            }
            '"' => {
                chars.next();
                let inside = run(&mut chars, |char| !['"', '\\'].contains(&char));
                if chars.next().is_none_or(|(_, end)| end != '"') {
                    return Err(format!("{text}: the text at {at} does not end, or has a backslash"));
                }
                Token::Text(inside)
            }
            _ => {
                let two =
                    text.get(at..at + 2).filter(|two| ["==", "!=", "<=", ">=", "=~", "!~"].contains(two));
                let sign = two.map_or_else(|| char.to_string(), str::to_owned);
                for _ in 0..sign.chars().count() {
                    chars.next();
                }
                Token::Sign(sign)
            }
        };
        tokens.push(token);
    }
    Ok(tokens)
}

fn run(chars: &mut Peekable<CharIndices<'_>>, belongs: impl Fn(char) -> bool) -> String {
    std::iter::from_fn(|| chars.next_if(|(_, char)| belongs(*char))).map(|(_, char)| char).collect()
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<Token> {
        self.next += 1;
        self.tokens.get(self.next - 1).cloned()
    }

    /// Is the next one this? Then it is taken.
    fn takes(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Sign(next)) if next == sign);
        self.next += usize::from(is);
        is
    }

    fn wants(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("{sign} is missing before {:?}", self.peek())) }
    }

    fn word(&mut self) -> Result<String, String> {
        match self.take() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(format!("{other:?} where a name was expected")),
        }
    }

    fn binary(&mut self, level: usize) -> Result<Expr, String> {
        let Some(operators) = LEVELS.get(level) else { return self.operand() };
        let mut left = self.binary(level + 1)?;
        while let Some(Token::Sign(next) | Token::Word(next)) = self.peek().cloned()
            && operators.contains(&next.as_str())
        {
            self.next += 1;
            left = Expr::Binary(Box::new(left), next, Box::new(self.binary(level + 1)?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expr, String> {
        if self.takes("(") {
            let inside = self.binary(0)?;
            self.wants(")")?;
            return Ok(inside);
        }
        match self.take() {
            Some(Token::Number(number)) => Ok(Expr::Number(number)),
            Some(Token::Word(word)) if AGGREGATIONS.contains(&word.as_str()) => self.aggregate(word),
            Some(Token::Word(word)) if self.takes("(") => {
                if !FUNCTIONS.contains(&word.as_str()) {
                    return Err(format!("the function {word} is not known here"));
                }
                let arguments = self.list(")", |parser| parser.binary(0))?;
                Ok(Expr::Call(word, arguments))
            }
            Some(Token::Word(name)) => self.selector(name).map(Expr::Selector),
            other => Err(format!("{other:?} where a value was expected")),
        }
    }

    fn aggregate(&mut self, operator: String) -> Result<Expr, String> {
        let mut by = Vec::new();
        if self.peek() == Some(&Token::Word("by".into())) {
            self.next += 1;
            self.wants("(")?;
            by = self.list(")", Self::word)?;
        }
        self.wants("(")?;
        let of = self.binary(0)?;
        self.wants(")")?;
        Ok(Expr::Aggregate(operator, by, Box::new(of)))
    }

    fn selector(&mut self, name: String) -> Result<Selector, String> {
        let matchers = if self.takes("{") { self.list("}", Self::matcher)? } else { Vec::new() };
        let range = if self.takes("[") {
            let range = self.word()?;
            self.wants("]")?;
            Some(range)
        } else {
            None
        };
        Ok(Selector { name, matchers, range })
    }

    fn matcher(&mut self) -> Result<Matcher, String> {
        let label = self.word()?;
        let (sign, text) = match (self.take(), self.take()) {
            (Some(Token::Sign(sign)), Some(Token::Text(text))) => (sign, text),
            other => return Err(format!("{other:?} after the label {label}")),
        };
        let is_pattern = match sign.as_str() {
            "=" | "!=" => false,
            "=~" | "!~" => true,
            _ => return Err(format!("{sign} after the label {label}")),
        };
        let values: Vec<String> =
            if is_pattern { text.split('|').map(str::to_owned).collect() } else { vec![text] };
        let plain = |value: &String| {
            let value = if is_pattern { value.strip_suffix(".+").unwrap_or(value) } else { value };
            value.chars().all(|char| char.is_ascii_alphanumeric() || "-_".contains(char))
        };
        if !values.iter().all(plain) {
            return Err(format!("of patterns only A|B and A.+ are known here, not {values:?}"));
        }
        Ok(Matcher { label, is_negated: sign.starts_with('!'), values })
    }

    /// Items between commas, up to `end`.
    fn list<T>(
        &mut self,
        end: &str,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        while !self.takes(end) {
            if !items.is_empty() {
                self.wants(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_those_of_promql() {
        let same =
            |left: &str, right: &str| assert_eq!(parse(left).unwrap(), parse(right).unwrap(), "{left}");
        same("a or b and c > 1 + 2 * d", "a or (b and (c > (1 + (2 * d))))");
        same("a - b - c", "(a - b) - c");
        same("max(a) < 1 or absent(a)", "(max(a) < 1) or (absent(a))");
        same(
            "sum by (x, y) (rate(a{b=~\"c|d\",e!=\"f\"}[5m]))",
            "sum  by(x,y)(rate(a{b=~\"c|d\", e!=\"f\"} [5m]))",
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (text, words) in [
            ("sum(a", ") is missing"),
            ("a b", "is left over"),
            ("a{b=c}", "after the label b"),
            ("a{b=~\"c.*\"}", "of patterns only"),
            ("a{b=\"c", "does not end"),
            ("deriv(a[5m])", "the function deriv is not known"),
            ("a > on (b) c", "the function on is not known"),
            ("-1", "where a value was expected"),
            ("", "where a value was expected"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
