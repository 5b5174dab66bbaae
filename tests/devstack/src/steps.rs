//! What a user sees: one line per step, with its time.

use std::fmt::Display;
use std::io::Write;
use std::time::Instant;

pub use weaver_host::progress::Progress;
use weaver_host::progress::aside;

/// Prints each step when it is done, with the time it took.
pub struct Steps {
    last: Instant,
}

impl Steps {
    pub fn begin() -> Self {
        Self { last: Instant::now() }
    }

    /// A step is done; its time is counted since the one before it.
    pub fn done(&mut self, what: &str, detail: impl Display) {
        say(format_args!("{}", line(self.last.elapsed().as_secs_f64(), what, &detail.to_string())));
        self.last = Instant::now();
    }
}

/// Prints a line. A closed pipe (`make up | head`) is no reason to stop.
pub fn say(text: impl Display) {
    let _ = aside(|| writeln!(std::io::stdout(), "{text}"));
}

fn line(seconds: f64, what: &str, detail: &str) -> String {
    format!("{seconds:6.1} s  {what:<22} {detail}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_step_and_detail() {
        assert_eq!(line(1.25, "API server ready", "x"), "   1.2 s  API server ready       x");
        assert_eq!(line(0.0, "done", ""), "   0.0 s  done");
    }
}
