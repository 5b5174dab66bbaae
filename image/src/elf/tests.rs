//! On ELF files written by hand here, so that each fault can be tested alone.

use proptest::prelude::*;

use super::*;

/// What a test's ELF file says; the default is fit for the card.
#[derive(Clone)]
struct ElfFile {
    machine: u16,
    kind: u16,
    loader: Option<&'static str>,
    libraries: Vec<&'static str>,
    references: Vec<&'static str>,
    flags: u64,
}

const AARCH64: u16 = 183;
const PIE: u64 = 0x0800_0000;

fn fit() -> ElfFile {
    ElfFile {
        machine: AARCH64,
        kind: 3,
        loader: Some(CARD_LOADER),
        libraries: vec!["libgcc_s.so.1", "libc.so.6"],
        references: vec!["GLIBC_2.17", "GLIBC_2.34", "GLIBC_2.9", "GCC_3.0"],
        flags: PIE,
    }
}

/// Strings, each with a NUL; answers with the offset of each.
#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn put(&mut self, text: &str) -> u32 {
        let at = self.0.len();
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        u32::try_from(at).unwrap()
    }
}

fn words(to: &mut Vec<u8>, values: &[u64]) {
    to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Like a Go program without C: for the tests of files for the card.
pub fn static_program() -> Vec<u8> {
    ElfFile { kind: 2, loader: None, libraries: vec![], references: vec![], flags: 0, ..fit() }.bytes()
}

/// The same for a PC.
pub fn x86_program() -> Vec<u8> {
    ElfFile { machine: 62, ..fit() }.bytes()
}

impl ElfFile {
    /// Sections: none, strings, dynamic table, version references, build id, names.
    fn bytes(&self) -> Vec<u8> {
        let mut strings = Strings::default();
        strings.put("");
        let mut dynamic = Vec::new();
        for library in &self.libraries {
            words(&mut dynamic, &[1, u64::from(strings.put(library))]);
        }
        words(&mut dynamic, &[0x6fff_fffb, self.flags, 0, 0]);
        let mut needs = Vec::new();
        if !self.references.is_empty() {
            let count = u16::try_from(self.references.len()).unwrap();
            needs.extend([1u16.to_le_bytes(), count.to_le_bytes()].concat());
            needs.extend([strings.put("libc.so.6"), 16, 0].map(u32::to_le_bytes).concat());
            for (index, name) in self.references.iter().enumerate() {
                let next = if index + 1 < self.references.len() { 16u32 } else { 0 };
                needs.extend(0u32.to_le_bytes());
                needs.extend([0, 2 + u16::try_from(index).unwrap()].map(u16::to_le_bytes).concat());
                needs.extend([strings.put(name), next].map(u32::to_le_bytes).concat());
            }
        }
        let mut note = [4u32, 2, 3].map(u32::to_le_bytes).concat();
        note.extend(b"GNU\0\xab\x01\0\0");
        let mut loader = self.loader.unwrap_or_default().as_bytes().to_vec();
        loader.push(0);

        let phnum = u16::from(self.loader.is_some());
        let mut body = Vec::new();
        let mut place = |content: Vec<u8>| {
            let at = 64 + 56 + body.len() as u64;
            let size = content.len() as u64;
            body.extend(content);
            body.resize(body.len().next_multiple_of(8), 0);
            (at, size)
        };
        let loader = place(loader);
        let parts = [
            (3u32, 0u32, place(strings.0)),
            (6, 1, place(dynamic)),
            (if needs.is_empty() { 0 } else { 0x6fff_fffe }, 1, place(needs)),
            (7, 0, place(note)),
            (3, 0, place(vec![0])),
        ];
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend([self.kind, self.machine].map(u16::to_le_bytes).concat());
        bytes.extend(1u32.to_le_bytes());
        words(&mut bytes, &[0, 64, 64 + 56 + body.len() as u64]);
        bytes.extend(0u32.to_le_bytes());
        bytes.extend([64, 56, phnum, 64, 6, 5].map(u16::to_le_bytes).concat());
        bytes.extend([3u32, 4].map(u32::to_le_bytes).concat());
        words(&mut bytes, &[loader.0, 0, 0, loader.1, loader.1, 1]);
        bytes.extend(body);
        bytes.extend([0; 64]);
        for (kind, link, (at, size)) in parts {
            bytes.extend([0, kind].map(u32::to_le_bytes).concat());
            words(&mut bytes, &[0, 0, at, size]);
            bytes.extend([link, 0].map(u32::to_le_bytes).concat());
            words(&mut bytes, &[4, 0]);
        }
        bytes
    }

    fn faults(&self, origin: ProgramOrigin) -> Vec<ProgramFault> {
        read(&self.bytes()).unwrap().faults(origin)
    }
}

#[test]
fn everything_is_read_and_a_fit_program_has_no_fault() {
    let facts = read(&fit().bytes()).unwrap();
    assert_eq!(facts.processor(), "AArch64, 64 bits, little-endian");
    assert_eq!(facts.loader.as_deref(), Some(CARD_LOADER));
    assert_eq!(facts.libraries, ["libgcc_s.so.1", "libc.so.6"]);
    assert_eq!(facts.glibc, Some(Glibc(2, 34)), "2.9 is older, as a number");
    assert_eq!(facts.build_id.as_deref(), Some("ab01"));
    assert!(facts.position_independent && facts.executable);
    assert_eq!(facts.faults(ProgramOrigin::Ours), []);
    assert_eq!(facts.faults(ProgramOrigin::Foreign), []);
}

#[test]
fn each_fault_is_found_alone_and_named() {
    let cases: [(ElfFile, ProgramFault, &str); 9] = [
        (
            ElfFile { machine: 62, ..fit() },
            ProgramFault::Machine { found: "x86-64, 64 bits, little-endian".to_owned() },
            "is for x86-64, 64 bits, little-endian; the card needs AArch64",
        ),
        (ElfFile { kind: 1, ..fit() }, ProgramFault::NotExecutable, "no program"),
        (ElfFile { loader: None, ..fit() }, ProgramFault::Static, "no loader"),
        (
            ElfFile { loader: Some("/lib/ld-musl-aarch64.so.1"), ..fit() },
            ProgramFault::Loader("/lib/ld-musl-aarch64.so.1".to_owned()),
            "loader is /lib/ld-musl-aarch64.so.1; the card's is /lib/ld-linux-aarch64.so.1",
        ),
        (
            ElfFile { libraries: vec!["libc.so.6", "libssl.so.3"], ..fit() },
            ProgramFault::Library("libssl.so.3".to_owned()),
            "needs libssl.so.3; allowed are libc.so.6,",
        ),
        (
            ElfFile { references: vec!["GLIBC_2.17", "GLIBC_2.42"], ..fit() },
            ProgramFault::GlibcTooNew(Glibc(2, 42)),
            "needs glibc 2.42, the card has 2.41",
        ),
        (ElfFile { references: vec![], ..fit() }, ProgramFault::GlibcUnknown, "does not say which glibc"),
        (
            ElfFile { references: vec!["GLIBC_2.17", "GLIBC_PRIVATE"], ..fit() },
            ProgramFault::OddReference("GLIBC_PRIVATE".to_owned()),
            "uses GLIBC_PRIVATE",
        ),
        (ElfFile { flags: 0, ..fit() }, ProgramFault::NotPositionIndependent, "not position-independent"),
    ];
    for (program, fault, words) in cases {
        assert!(fault.to_string().contains(words), "{fault}");
        assert_eq!(program.faults(ProgramOrigin::Ours), [fault]);
    }
}

#[test]
fn a_program_of_others_may_be_static_and_fixed() {
    let go = ElfFile { kind: 2, loader: None, libraries: vec![], references: vec![], flags: 0, ..fit() };
    assert_eq!(go.faults(ProgramOrigin::Foreign), []);
    assert_eq!(go.faults(ProgramOrigin::Ours), [ProgramFault::Static, ProgramFault::NotPositionIndependent]);
    // As soon as it has a loader, it has to fit the card's glibc.
    let linked = ElfFile { references: vec!["GLIBC_2.43"], flags: 0, ..fit() };
    assert_eq!(linked.faults(ProgramOrigin::Foreign), [ProgramFault::GlibcTooNew(Glibc(2, 43))]);
    let silent = ElfFile { references: vec![], ..linked };
    assert_eq!(silent.faults(ProgramOrigin::Foreign), [ProgramFault::GlibcUnknown]);
}

#[test]
fn several_faults_are_all_named() {
    let program = ElfFile {
        libraries: vec!["libc.so.6", "libdl.so.2", "libz.so.1"],
        references: vec!["GLIBC_3.0"],
        flags: 0,
        ..fit()
    };
    assert_eq!(
        program.faults(ProgramOrigin::Ours),
        [
            ProgramFault::Library("libdl.so.2".to_owned()),
            ProgramFault::Library("libz.so.1".to_owned()),
            ProgramFault::GlibcTooNew(Glibc(3, 0)),
            ProgramFault::NotPositionIndependent,
        ]
    );
}

#[test]
fn the_card_s_glibc_is_the_newest_allowed() {
    let program = ElfFile { references: vec!["GLIBC_2.41"], ..fit() };
    assert_eq!(program.faults(ProgramOrigin::Ours), []);
    let packed = ElfFile { references: vec!["GLIBC_2.17", "GLIBC_ABI_DT_RELR"], ..fit() };
    assert_eq!(read(&packed.bytes()).unwrap().glibc, Some(Glibc(2, 36)));
}

#[test]
fn other_machines_are_named_whatever_their_width_and_order() {
    for (class, order, machine, words) in [
        (1, 1, 40, "ARM, 32 bits, little-endian"),
        (1, 1, 3, "x86, 32 bits, little-endian"),
        (2, 2, 183, "AArch64, 64 bits, big-endian"),
        (2, 1, 243, "RISC-V, 64 bits, little-endian"),
        (2, 2, 22, "ELF machine 22, 64 bits, big-endian"),
    ] {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, order, 1];
        bytes.resize(64, 0);
        let put = |to: &mut Vec<u8>, at: usize, value: u16| {
            let value = if order == 1 { value.to_le_bytes() } else { value.to_be_bytes() };
            to[at..at + 2].copy_from_slice(&value);
        };
        put(&mut bytes, 16, 2);
        put(&mut bytes, 18, machine);
        let facts = read(&bytes).unwrap();
        assert_eq!(facts.faults(ProgramOrigin::Foreign), [ProgramFault::Machine { found: words.to_owned() }]);
    }
}

#[test]
fn what_is_not_elf_is_called_what_it_looks_like() {
    for (bytes, words) in [
        (&b""[..], "empty"),
        (b"#!/bin/sh\necho k3s version v1\n", "a script"),
        (b"\x1f\x8b\x08\0", "a compressed archive"),
        (b"\x28\xb5\x2f\xfd\0", "a compressed archive"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"MZ\x90\0", "a Windows program"),
        (b"\x7fEL", "something else"),
    ] {
        let text = read(bytes).unwrap_err().to_string();
        assert_eq!(text, format!("it is {words}, not an ELF program"));
    }
}

#[test]
fn a_file_that_was_cut_off_is_damaged() {
    let whole = fit().bytes();
    for length in [4, 5, 16, 63, 64, 100, whole.len() / 2, whole.len() - 1] {
        let error = read(&whole[..length]).unwrap_err();
        assert!(matches!(error, NotElf::Damaged(_)), "{length}: {error}");
    }
    let mut wrong = whole;
    wrong[4] = 9;
    assert!(matches!(read(&wrong), Err(NotElf::Damaged(_))));
}

proptest! {
    #[test]
    fn any_damage_is_read_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = fit().bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes).map(|facts| facts.faults(ProgramOrigin::Ours));
        let _ = read(&bytes[..cut.index(bytes.len())]);
    }
}
