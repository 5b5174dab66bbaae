//! Progress of long work on a terminal: a line on standard error, which is removed when the work has ended.
//!
//! Guarantees: nothing where standard error is no terminal or `TERM` is `dumb`, and never anything on
//! standard output. What else the program prints is printed through [`aside`], so that no line begins or ends
//! within another. Nothing that others wrote is obeyed by the terminal. Failure: none; the work does not
//! depend on being looked at.

use std::io::{self, Read};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use weaver_diagnostics::finding_text::cut;

/// How often a line is drawn at most, in a second.
const RATE: u8 = 8;
/// How often each is drawn, however often its work says how far it is.
const TICK: Duration = Duration::from_millis(200);
/// Longest text; what does not fit into the line is cut there.
const TEXT: usize = 200;

/// Work that waits for others.
const WAITS: &str = "{spinner} {elapsed:>4}  {wide_msg}";
/// Work of which the end is known. Counted by indicatif.
const BYTES: &str = "[{bar:24}] {percent:>3} %  {bytes} of {total_bytes}  {wide_msg}";
const ITEMS: &str = "[{bar:24}] {percent:>3} %  {pos} of {len}  {wide_msg}";

static LINES: LazyLock<ProgressLines> = LazyLock::new(|| {
    ProgressLines(MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(RATE)))
});

/// All lines of a terminal.
struct ProgressLines(MultiProgress);

impl ProgressLines {
    fn begin(&self, style: &str, total: Option<u64>, text: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        // A template that is none would be a fault of ours, which a test finds: without one the work continues.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> ").tick_chars("-\\|/ "));
        }
        bar.set_message(cut(text, TEXT));
        let bar = self.0.add(bar);
        // A thread for nothing, where nothing is drawn.
        if !self.0.is_hidden() {
            bar.tick();
            bar.enable_steady_tick(TICK);
        }
        Progress(Arc::new(ProgressLine { bar, all: self.0.clone() }))
    }
}

/// Work in progress; its line is removed with the last of its clones.
#[derive(Clone)]
pub struct Progress(Arc<ProgressLine>);

struct ProgressLine {
    bar: ProgressBar,
    all: MultiProgress,
}

impl Progress {
    /// Work of which only the time is known.
    pub fn waiting(text: &str) -> Self {
        LINES.begin(WAITS, None, text)
    }

    /// Work on so many bytes; on any number of them where that is not known.
    pub fn of_bytes(text: &str, total: Option<u64>) -> Self {
        LINES.begin(if total.is_some() { BYTES } else { WAITS }, total, text)
    }

    /// Work on so many items.
    pub fn of_items(text: &str, total: u64) -> Self {
        LINES.begin(ITEMS, Some(total), text)
    }

    /// What is done now.
    pub fn text(&self, text: &str) {
        self.0.bar.set_message(cut(text, TEXT));
    }

    /// So many more are done.
    pub fn more(&self, done: u64) {
        self.0.bar.inc(done);
    }

    /// So many are done, of so many.
    pub fn at(&self, done: u64, total: u64) {
        self.0.bar.set_length(total);
        self.0.bar.set_position(done);
    }

    /// Counts what is read.
    pub fn reading<R: Read>(&self, from: R) -> Reading<R> {
        Reading { from, progress: self.clone() }
    }
}

/// What is read, counted.
pub struct Reading<R> {
    from: R,
    progress: Progress,
}

impl<R: Read> Read for Reading<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.progress.more(count as u64);
        Ok(count)
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.all.remove(&self.bar);
    }
}

/// Prints, to wherever, while no line of progress is on the terminal.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    LINES.0.suspend(print)
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, TermLike as _};

    use super::*;

    fn terminal(columns: u16) -> (InMemoryTerm, ProgressLines) {
        let terminal = InMemoryTerm::new(6, columns);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        (terminal, ProgressLines(MultiProgress::with_draw_target(target)))
    }

    /// What the terminal shows, without waiting for the next time it is drawn.
    fn shown(terminal: &InMemoryTerm, progress: &Progress) -> String {
        progress.0.bar.force_draw();
        terminal.contents()
    }

    #[test]
    fn a_line_says_how_far_and_goes_with_its_work() {
        let (terminal, lines) = terminal(60);
        let bytes = lines.begin(BYTES, Some(4 << 20), "archive");
        bytes.more(1 << 20);
        let text = shown(&terminal, &bytes);
        assert_eq!(text, "[======>                 ]  25 %  1.00 MiB of 4.00 MiB  arch");
        bytes.at(4 << 20, 8 << 20);
        bytes.text("back");
        let text = shown(&terminal, &bytes);
        assert!(text.ends_with("50 %  4.00 MiB of 8.00 MiB  back"), "{text}");
        io::copy(&mut bytes.reading(io::repeat(1).take(2 << 20)), &mut io::sink()).unwrap();
        let text = shown(&terminal, &bytes);
        assert!(text.contains("75 %  6.00 MiB of"), "{text}");
        let items = lines.begin(ITEMS, Some(3), "copies");
        items.more(1);
        let text = shown(&terminal, &items);
        assert!(text.lines().count() == 2 && text.ends_with(" 33 %  1 of 3  copies"), "{text}");
        drop(bytes);
        assert_eq!(shown(&terminal, &items).lines().count(), 1);
        drop(items);
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn what_is_printed_meanwhile_has_lines_of_its_own() {
        let (terminal, lines) = terminal(40);
        let waits = lines.begin(WAITS, None, "waiting");
        assert!(terminal.contents().ends_with("0s  waiting"), "{:?}", terminal.contents());
        lines.0.suspend(|| terminal.write_line("a line").unwrap());
        let shown = terminal.contents();
        assert!(shown.starts_with("a line\n") && shown.ends_with("waiting"), "{shown:?}");
        drop(waits);
        assert_eq!(terminal.contents(), "a line");
    }

    #[test]
    fn a_text_of_others_is_cut_to_the_line_and_obeyed_by_no_terminal() {
        let (terminal, lines) = terminal(40);
        let progress = lines.begin(WAITS, None, "\u{1b}[2J\nevil");
        assert!(terminal.contents().ends_with("\\u{1b}[2J\\nevil"), "{}", terminal.contents());
        progress.text(&"wide ⚙ 界".repeat(50));
        let text = shown(&terminal, &progress);
        assert!(text.lines().count() == 1 && text.contains("wide ⚙"), "{text}");
    }

    #[test]
    fn where_there_is_no_terminal_nothing_is_drawn() {
        let lines = ProgressLines(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()));
        let progress = lines.begin(ITEMS, Some(2), "x");
        progress.more(1);
        assert!(progress.0.bar.is_hidden());
        assert_eq!(lines.0.suspend(|| 7), 7);
    }
}
