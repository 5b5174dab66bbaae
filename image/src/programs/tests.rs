//! The judgement, and the parts that need no cross compiler; `tests/programs.rs` builds for real.

use super::*;
use crate::elf::Glibc;

fn facts() -> ElfFacts {
    ElfFacts {
        machine: "AArch64".to_owned(),
        bits: 64,
        little_endian: true,
        executable: true,
        position_independent: true,
        loader: Some(elf::CARD_LOADER.to_owned()),
        libraries: vec!["libc.so.6".to_owned()],
        glibc: Some(Glibc(2, 36)),
        odd_references: Vec::new(),
        build_id: None,
    }
}

#[test]
fn a_program_above_its_budget_is_named_with_its_size() {
    let budget = Profile::Release.budget();
    judge(&facts(), budget - 1, budget).unwrap();
    let text = judge(&facts(), budget, budget).unwrap_err().to_string();
    assert!(text.contains("20971520 bytes") && text.contains("the budget is 20 MiB"), "{text}");
}

#[test]
fn all_faults_are_reported_at_once() {
    let bad = ElfFacts { glibc: Some(Glibc(2, 42)), libraries: vec!["libz.so.1".to_owned()], ..facts() };
    let text = judge(&bad, 2, 1).unwrap_err().to_string();
    for words in ["glibc 2.42", "libz.so.1", "the budget"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_line_tells_size_floor_and_both_places() {
    let program = CardProgram {
        name: "weaver",
        path: "p/weaver".into(),
        size: (11 << 20) + (3 << 18),
        sha256: String::new(),
        facts: facts(),
        symbols: "s/weaver.debug".into(),
    };
    assert_eq!(line(&program), "   11.7 MiB  p/weaver  (glibc 2.36 or later, symbols in s/weaver.debug)");
}

#[test]
fn the_programs_are_those_that_cargo_names() {
    let report = r#"{"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}
a line that is none of cargo's
{"reason":"compiler-artifact","target":{"name":"weaver"},"executable":"/t/release/weaver"}
{"reason":"compiler-message","target":{"name":"other"},"executable":"/t/other"}
{"reason":"build-finished","success":true}"#;
    let found = executables(report);
    assert_eq!(found, BTreeMap::from([("weaver".to_owned(), PathBuf::from("/t/release/weaver"))]));
}

#[test]
fn nothing_of_an_outer_cargo_s_package_reaches_the_inner_one() {
    for (name, is_outer) in
        [("CARGO_PKG_NAME", true), ("CARGO_MANIFEST_DIR", true), ("CARGO_TARGET_DIR", false), ("PATH", false)]
    {
        assert_eq!(is_outer_package(OsStr::new(name)), is_outer, "{name}");
    }
}

#[test]
fn what_is_no_program_for_the_card_is_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (programs, symbols) = (dir.path().join("programs"), dir.path().join("symbols"));
    fs::create_dir_all(&programs).unwrap();
    fs::create_dir_all(&symbols).unwrap();
    let text = format!("{:#}", prepare("x", Path::new("/nowhere"), "1", 1, &programs, &symbols).unwrap_err());
    assert!(text.contains(OBJCOPY), "{text}");
    for dir in [programs, symbols] {
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }
}

#[test]
fn symbols_are_found_by_build_id_and_a_link_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("weaver.debug"), "symbols").unwrap();
    for _ in 0..2 {
        link_by_id(dir.path(), "ab01cd", "weaver").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(".build-id/ab/01cd.debug")).unwrap(), "symbols");
    }
    for short in ["", "a", "ab"] {
        assert!(link_by_id(dir.path(), short, "weaver").unwrap_err().to_string().contains("too short"));
    }
}
