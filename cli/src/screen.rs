//! Lines on the terminal that are redrawn.
//!
//! Guarantees: no line is wider than the terminal, and there are never more than it has; control characters in foreign
//! text have no effect; an unchanged picture is not written again. After a resize the terminal is cleared, since the
//! position of the old lines is not known. Failure: as for everything that is printed, see [`crate::stdout`].

use console::{Term, measure_text_width, truncate_str};
use weaver_diagnostics::finding_text::clean;
use weaver_host::platform;

use crate::stdout::document;

/// For a terminal that does not report its size.
const USUAL: ScreenSize = ScreenSize { rows: 24, columns: 80 };

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScreenSize {
    pub rows: usize,
    pub columns: usize,
}

impl ScreenSize {
    /// Lines that fit: below them is the line of the cursor.
    pub const fn lines(self) -> usize {
        self.rows.saturating_sub(1)
    }
}

/// The terminal of standard output.
pub struct Screen {
    terminal: Term,
    drawn: Option<Drawn>,
}

struct Drawn {
    size: ScreenSize,
    lines: Vec<String>,
}

impl Screen {
    /// `None` where standard output is no terminal, or one that cannot be drawn on.
    pub fn of_stdout() -> Option<Self> {
        let terminal = Term::stdout();
        (terminal.is_term() && platform::shows_colours()).then_some(Self { terminal, drawn: None })
    }

    pub fn size(&self) -> ScreenSize {
        let known = self.terminal.size_checked();
        known.map_or(USUAL, |(rows, columns)| ScreenSize { rows: rows.into(), columns: columns.into() })
    }

    /// Replaces the lines drawn before by these. Returns whether there still is a terminal.
    pub fn draw(&mut self, lines: &[String]) -> anyhow::Result<bool> {
        let size = self.size();
        let lines = fitting(lines, size);
        let before = self.drawn.as_ref();
        if before.is_some_and(|before| before.size == size && before.lines == lines) {
            return Ok(true);
        }
        let text = frame(&lines, before, size);
        self.drawn = Some(Drawn { size, lines });
        document(&text)
    }

    /// Keeps what is drawn, without the `^C` of the user who ended it.
    pub fn leave(self) -> anyhow::Result<()> {
        if self.drawn.is_none() { Ok(()) } else { document("\r\u{1b}[J").map(drop) }
    }
}

/// As they fit on a terminal of this size. Its last column stays free: some terminals wrap a line that fills it.
fn fitting(lines: &[String], size: ScreenSize) -> Vec<String> {
    let columns = size.columns.saturating_sub(1);
    lines.iter().take(size.lines()).map(|line| cut(clean(line).trim_end(), columns)).collect()
}

/// As much of a line as is not wider. `truncate_str` adds up characters, and an emoji with the selector of its coloured
/// form is wider than its characters: then it is cut shorter.
fn cut(line: &str, columns: usize) -> String {
    let mut cuts = (0..=columns).rev().map(|columns| truncate_str(line, columns, "…"));
    cuts.find(|cut| measure_text_width(cut) <= columns).unwrap_or_default().into_owned()
}

/// What is written to show these lines, which fit.
fn frame(lines: &[String], before: Option<&Drawn>, size: ScreenSize) -> String {
    let mut text = match before {
        None => String::new(),
        Some(before) if before.size != size => "\u{1b}[H\u{1b}[2J".to_owned(),
        Some(before) if before.lines.is_empty() => "\r".to_owned(),
        Some(before) => format!("\r\u{1b}[{}A", before.lines.len()),
    };
    for line in lines {
        text.extend([line.as_str(), "\u{1b}[K\n"]);
    }
    text + "\u{1b}[J"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weaver_diagnostics::finding_text::is_unprintable;

    use super::*;

    fn size(rows: u16, columns: u16) -> ScreenSize {
        ScreenSize { rows: rows.into(), columns: columns.into() }
    }

    /// Draws one set of lines after the other, as a terminal in which line feeds begin lines; what it shows then.
    fn shown(parser: &mut vt100::Parser, frames: &[(ScreenSize, &[&str])]) -> Vec<String> {
        let mut before = None;
        for (size, lines) in frames {
            let (rows, columns) = (u16::try_from(size.rows).unwrap(), u16::try_from(size.columns).unwrap());
            parser.screen_mut().set_size(rows, columns);
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            let lines = fitting(&lines, *size);
            parser.process(frame(&lines, before.as_ref(), *size).replace('\n', "\r\n").as_bytes());
            before = Some(Drawn { size: *size, lines });
        }
        let shown = parser.screen().contents();
        shown.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_drawn_in_place_of_those_before_and_below_what_was_there() {
        let mut parser = vt100::Parser::new(6, 20, 0);
        parser.process(b"$ weaver sync watch\r\n");
        let usual = size(6, 20);
        let text = shown(&mut parser, &[(usual, &["NAME", "first", "second"]), (usual, &["NAME", "other"])]);
        assert_eq!(text, ["$ weaver sync watch", "NAME", "other"]);
        let text = shown(&mut parser, &[(usual, &[]), (usual, &["a"]), (usual, &["b", "c"])]);
        assert_eq!(text[text.len() - 2..], ["b", "c"]);
    }

    #[test]
    fn at_the_bottom_of_a_terminal_and_where_all_is_full_nothing_is_drawn_twice() {
        let mut parser = vt100::Parser::new(4, 10, 0);
        parser.process(b"1\r\n2\r\n3\r\n$ watch\r\n");
        let small = size(4, 10);
        let many: &[&str] = &["A", "0123456789012345", "wide 界界界", "not shown"];
        for _ in 0..3 {
            let text = shown(&mut parser, &[(small, many), (small, &["A", "b"]), (small, many)]);
            assert_eq!(text, ["A", "01234567…", "wide 界…"]);
        }
    }

    #[test]
    fn a_terminal_of_another_size_is_cleared_first() {
        let mut parser = vt100::Parser::new(6, 30, 0);
        let lines: &[&str] = &["a line that is rather long", "b"];
        let text = shown(&mut parser, &[(size(6, 30), lines), (size(5, 12), lines)]);
        assert_eq!(text, ["a line tha…", "b"]);
        let text = shown(&mut parser, &[(size(5, 12), lines), (size(1, 1), lines), (size(8, 40), lines)]);
        assert_eq!(text, lines);
    }

    #[test]
    fn an_emoji_that_is_wider_than_its_characters_is_cut_by_what_it_takes() {
        for emoji in ["🕯\u{fe0f}", "☺\u{fe0f}", "1\u{fe0f}\u{20e3}"] {
            let line = emoji.repeat(30);
            for columns in 1..40 {
                let shown = &fitting(std::slice::from_ref(&line), ScreenSize { rows: 2, columns })[0];
                assert!(measure_text_width(shown) < columns, "{shown:?} is wider than {columns}");
                assert!(shown.ends_with('…') || columns == 1, "{shown:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_others_wrote_is_obeyed_by_no_terminal_and_fits(
            text in any::<String>(), more in "[\u{1b}\u{7}\r\n\u{9b}\u{202e}\u{200b}\u{2028}界🦀🕯\u{fe0f}é a-z]{0,60}",
            columns in 0u16..80,
        ) {
            for line in fitting(&[text, more], size(9, columns)) {
                prop_assert!(!line.contains(is_unprintable), "{line:?}");
                prop_assert!(measure_text_width(&line) < usize::from(columns.max(2)), "{line:?}");
            }
        }
    }
}
