//! Every command of a how-to or a tutorial is either typed by a test (`page.rs`), or is in `held.txt` with
//! the test that types it elsewhere, and with its words there: a command that changes on the page or in the
//! test is seen here.
//!
//! In `held.txt` a page is a line that ends with a colon. Below it are what is on the page, a command of a block or
//! words in a line, and indented the file and what it has: the words of that command, not a single one that would be
//! there anyway; a comment does not type a command. The file is a test, or another page with that command in a block
//! that its test types. `by hand` instead of a file is for what needs something that no test has: what, is said there.
//!
//! What `real_k3d.rs` types is typed only where `make test K3D=DIR` names a real k3d.

use weaver_tests::monitoring::file;

use crate::links::pages;
use crate::page::{Block, blocks};
use crate::real_k3d;

const TABLE: &str = include_str!("held.txt");

struct Held {
    /// Below `docs/`.
    page: &'static str,
    command: &'static str,
    file: &'static str,
    words: &'static str,
}

fn table() -> Vec<Held> {
    let mut page = "";
    let mut command = None;
    let mut held = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("  "), command) {
            (Some(test), Some(command)) => {
                let (file, words) = test.split_once(": ").unwrap_or_else(|| panic!("no words: {line}"));
                held.push(Held { page, command, file, words });
            }
            (Some(_), None) => panic!("no command before {line}"),
            (None, _) if line.ends_with(".md:") => {
                (page, command) = (&line[..line.len() - 1], None);
            }
            (None, _) => command = Some(line),
        }
    }
    held
}

impl Held {
    fn holds(&self, page: &str, command: &str) -> bool {
        page.strip_prefix("docs/") == Some(self.page) && command == self.command
    }

    /// The words are in a line of a test that is no comment, or are a command of a page that its test types.
    fn is_in_a_test(&self) -> bool {
        let text = file(self.file);
        if self.file.starts_with("docs/") {
            let marked = blocks(&text).into_iter().filter(|block| block.kind.contains(" run"));
            let mut lines = marked.flat_map(|block| block.lines);
            return lines.any(|line| line.strip_prefix("$ ").unwrap_or(line) == self.words);
        }
        let is_comment = |line: &str| ["//", "# "].iter().any(|mark| line.trim_start().starts_with(mark));
        let is_test = format!("/{}", self.file).contains("/tests/") || text.contains("test]\n");
        is_test && text.lines().any(|line| line.contains(self.words) && !is_comment(line))
    }

    /// A test that types whole pages holds the commands of the page that it is named with, but for those it leaves out.
    fn is_of_another_page(&self) -> bool {
        let is_left_out =
            self.file == "tests/docs/real_k3d.rs" && real_k3d::NOT_TYPED.contains(&self.command);
        is_left_out || self.words.contains("docs/") && !self.words.contains(self.page)
    }
}

/// Commands of the blocks that no test types, without comments and in one line each.
fn untyped(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for Block { kind, lines } in blocks(page) {
        let is_command = |line: &&str| match kind {
            "console" => line.starts_with("$ "),
            _ => !line.is_empty(),
        };
        if !["", "sh", "console"].contains(&kind) {
            continue;
        }
        let text = lines.into_iter().filter(is_command).collect::<Vec<_>>().join("\n").replace("\\\n", "");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            // What a command is fed with.
            if line.contains("<<'END'") {
                lines.by_ref().take_while(|line| *line != "END").for_each(drop);
            }
            let command = line.strip_prefix("$ ").unwrap_or(line).split(" # ").next().unwrap();
            let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
            commands.extend((!command.starts_with('#')).then_some(command));
        }
    }
    commands
}

fn guides() -> impl Iterator<Item = String> {
    let folders = ["docs/how-to/", "docs/tutorials/"];
    pages().into_iter().filter(move |page| folders.iter().any(|folder| page.starts_with(folder)))
}

#[test]
fn commands_of_a_page_are_read_without_comments_and_input() {
    let page = "```\na --b   # why\nc \\\n  d\ne <<'END'\nf\nEND\n```\n```sh run\ng\n```\n```text\nh\n```\n```console\n$ i\nj\n```\n";
    assert_eq!(untyped(page), ["a --b", "c d", "e <<'END'", "i"]);
}

#[test]
fn each_command_of_a_guide_is_typed_by_a_test_or_held_to_one() {
    let table = table();
    let mut faults = Vec::new();
    for page in guides() {
        let text = file(&page);
        let is_typed = blocks(&text).iter().any(|block| block.kind.contains(" run"));
        if !is_typed && !table.iter().any(|held| page.ends_with(held.page)) {
            faults.push(format!("{page}: no test holds anything of it"));
        }
        let is_held = |command: &String| table.iter().any(|held| held.holds(&page, command));
        let missing = untyped(&text).into_iter().filter(|command| !is_held(command));
        faults.extend(missing.map(|command| format!("{page}: no test types: {command}")));
    }
    assert!(faults.is_empty(), "{faults:#?}\nmark the block as `sh run`, or name the test in held.txt");
}

#[test]
fn each_page_with_a_block_that_is_marked_has_its_test() {
    let tests = include_str!("commands.rs").to_owned() + include_str!("pages_on_a_server.rs");
    let is_marked = |page: &String| blocks(&file(page)).iter().any(|block| block.kind.contains(" run"));
    let missing: Vec<_> = pages()
        .into_iter()
        .filter(is_marked)
        .filter(|page| !tests.contains(&format!("\"{page}\"")))
        .collect();
    assert!(missing.is_empty(), "no test types {missing:#?}");
}

#[test]
fn what_is_held_is_on_its_page_and_in_the_test() {
    let texts: Vec<_> = guides().map(|page| (file(&page), page)).collect();
    let mut faults = Vec::new();
    let by_hand = table().iter().filter(|held| held.file == "by hand").count();
    for held in table() {
        let Held { page, command, file: path, words } = held;
        let is_there = texts.iter().any(|(text, of)| {
            of.ends_with(page) && text.contains(command)
                || untyped(text).iter().any(|typed| held.holds(of, typed))
        });
        if !is_there {
            faults.push(format!("{page} does not have: {command}"));
        }
        if words.len() < SHORTEST {
            faults.push(format!(
                "{page}: {command}\n{words} may be there for another reason: write more of it"
            ));
        }
        if path != "by hand" && !held.is_in_a_test() {
            faults.push(format!(
                "{page}: {command}\n{path} is no test, or does not have outside of comments: {words}"
            ));
        }
        if held.is_of_another_page() {
            faults.push(format!("{page}: {command}\n{path} does not type it for that page: {words}"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(by_hand <= BY_HAND, "{by_hand} commands are tried by hand only: let a test type the new one");
}

/// As many as there were when this was written.
const BY_HAND: usize = 22;

/// Words that name a command or a reason: longer than one word that a test has anyway.
const SHORTEST: usize = 11;

#[test]
fn each_target_of_make_that_a_guide_names_exists() {
    let makefile = file("Makefile");
    let mut found = 0;
    let mut faults = Vec::new();
    for page in guides().chain(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]) {
        let text = file(&page);
        let spans = text.split('`').skip(1).step_by(2);
        let lines = blocks(&text).into_iter().flat_map(|block| block.lines);
        for command in spans.chain(lines.map(str::trim)) {
            let words =
                command.split_once("make ").filter(|(before, _)| before.is_empty() || before.ends_with(' '));
            let Some((_, words)) = words else { continue };
            let words = words.split([';', '#', '\n']).next().unwrap().split_whitespace();
            for target in words.filter(|word| !word.contains('=')).take_while(|word| !word.starts_with('\\'))
            {
                found += 1;
                if !makefile.contains(&format!("\n{target}: ")) {
                    faults.push(format!("{page}: make {target}"));
                }
            }
        }
    }
    assert!(found > 30, "{found}");
    assert!(faults.is_empty(), "{faults:#?}");
}
