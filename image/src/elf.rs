//! What an ELF program needs of the machine that runs it, and whether the card has it.
//!
//! [`read`] is pure: bytes in, [`ElfFacts`] out. Guarantees: any bytes are read without a panic; what cannot be
//! determined counts as a fault, so a program whose tables were cut off is never accepted. Failure: [`NotElf`] says
//! what the bytes look like instead, [`ElfFacts::faults`] names every fault at once.

use std::fmt;

use object::elf::{
    DF_1_PIE, DT_FLAGS_1, DT_NEEDED, ELFDATA2LSB, EM_386, EM_AARCH64, EM_ARM, EM_RISCV, EM_X86_64, ET_DYN,
    ET_EXEC, FileHeader32, FileHeader64, Machine,
};
use object::read::elf::{Dynamic, FileHeader, ProgramHeader, SectionTable};
use object::{Endianness, FileKind};

/// The glibc of the card: Debian 13's.
pub const CARD_GLIBC: Glibc = Glibc(2, 41);
/// The loader of the card's programs.
pub const CARD_LOADER: &str = "/lib/ld-linux-aarch64.so.1";
/// The libraries that a program for the card may name: glibc, which no longer needs libdl or libpthread next to
/// it, and libgcc.
pub const CARD_LIBRARIES: [&str; 4] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-aarch64.so.1"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glibc(pub u32, pub u32);

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// What a program's headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfFacts {
    /// Its instruction set, such as `AArch64`.
    pub machine: String,
    /// 32 or 64.
    pub bits: u8,
    pub little_endian: bool,
    /// Whether it is a program, and not an object file or a core.
    pub executable: bool,
    /// Whether it may be loaded at any address.
    pub position_independent: bool,
    /// The program that loads it; `None` for a static one.
    pub loader: Option<String>,
    /// The libraries it names, in its order.
    pub libraries: Vec<String>,
    /// The newest glibc whose symbols it uses.
    pub glibc: Option<Glibc>,
    /// References to glibc that are no version, such as `GLIBC_PRIVATE`.
    pub odd_references: Vec<String>,
    /// The linker's id, in lower-case hexadecimal.
    pub build_id: Option<String>,
}

/// The bytes are no ELF file that can be read.
#[derive(Debug, PartialEq, Eq)]
pub enum NotElf {
    /// They are something else.
    Other(&'static str),
    /// They begin as ELF, and are truncated or damaged.
    Damaged(String),
}

impl fmt::Display for NotElf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(what) => write!(f, "it is {what}, not an ELF program"),
            Self::Damaged(why) => write!(f, "it is a damaged ELF file ({why}); build or fetch it again"),
        }
    }
}

impl std::error::Error for NotElf {}

/// Why the card cannot, or should not, run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramFault {
    Machine {
        /// What it is for, such as `x86-64, 64 bits`.
        found: String,
    },
    /// An object file, a core dump.
    NotExecutable,
    /// Our own programs use glibc; one without a loader is not what we built.
    Static,
    /// Another loader than the card's.
    Loader(String),
    /// A library that is not on the card, or not wanted there.
    Library(String),
    /// Newer than the card's glibc.
    GlibcTooNew(Glibc),
    /// It has a loader, and no version of glibc was found.
    GlibcUnknown,
    /// glibc's private symbols change between versions.
    OddReference(String),
    /// Address space randomisation does not apply to its code.
    NotPositionIndependent,
}

impl fmt::Display for ProgramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine { found } => {
                write!(f, "it is for {found}; the card needs AArch64, 64 bits, little-endian")
            }
            Self::NotExecutable => write!(f, "it is an ELF file, but no program"),
            Self::Static => write!(f, "it has no loader; the card's own programs use the card's glibc"),
            Self::Loader(found) => write!(f, "its loader is {found}; the card's is {CARD_LOADER}"),
            Self::Library(name) => {
                write!(f, "it needs {name}; allowed are {}", CARD_LIBRARIES.join(", "))
            }
            Self::GlibcTooNew(found) => write!(
                f,
                "it needs glibc {found}, the card has {CARD_GLIBC}; build it against Debian 13 or older \
                 (docs/how-to/cross-compile.md)"
            ),
            Self::GlibcUnknown => write!(f, "it does not say which glibc it needs; link it again"),
            Self::OddReference(name) => {
                write!(f, "it uses {name}, which only this builder's glibc has; link it again")
            }
            Self::NotPositionIndependent => {
                write!(f, "it is not position-independent; build it with Rust's default relocation model")
            }
        }
    }
}

/// The origin of a program, which decides how strictly it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramOrigin {
    /// Built from this checkout's Rust: with glibc, position-independent.
    Ours,
    /// A Go program such as k3s, which is static and has a fixed address.
    Foreign,
}

impl ElfFacts {
    /// `AArch64, 64 bits, little-endian`, for messages.
    pub fn processor(&self) -> String {
        let order = if self.little_endian { "little" } else { "big" };
        format!("{}, {} bits, {order}-endian", self.machine, self.bits)
    }

    /// Every reason against it; none: the card runs it.
    pub fn faults(&self, origin: ProgramOrigin) -> Vec<ProgramFault> {
        if self.machine != "AArch64" || self.bits != 64 || !self.little_endian {
            // All other faults would follow from this and only hide it.
            return vec![ProgramFault::Machine { found: self.processor() }];
        }
        if !self.executable {
            return vec![ProgramFault::NotExecutable];
        }
        let mut faults = Vec::new();
        match self.loader.as_deref() {
            None if origin == ProgramOrigin::Ours => faults.push(ProgramFault::Static),
            Some(loader) if loader != CARD_LOADER => faults.push(ProgramFault::Loader(loader.to_owned())),
            Some(_) if self.glibc.is_none() => faults.push(ProgramFault::GlibcUnknown),
            _ => {}
        }
        let strange = self.libraries.iter().filter(|name| !CARD_LIBRARIES.contains(&name.as_str()));
        faults.extend(strange.cloned().map(ProgramFault::Library));
        faults.extend(self.glibc.filter(|found| *found > CARD_GLIBC).map(ProgramFault::GlibcTooNew));
        faults.extend(self.odd_references.iter().cloned().map(ProgramFault::OddReference));
        if origin == ProgramOrigin::Ours && !self.position_independent {
            faults.push(ProgramFault::NotPositionIndependent);
        }
        faults
    }
}

/// Reads a program's headers.
///
/// # Errors
/// When it is not ELF, or its tables point outside of it.
pub fn read(data: &[u8]) -> Result<ElfFacts, NotElf> {
    if !data.starts_with(b"\x7fELF") {
        return Err(NotElf::Other(resemblance(data)));
    }
    let facts = match FileKind::parse(data) {
        Ok(FileKind::Elf32) => facts::<FileHeader32<Endianness>>(data, 32),
        Ok(FileKind::Elf64) => facts::<FileHeader64<Endianness>>(data, 64),
        Ok(_) => return Err(NotElf::Damaged("its class is neither 32 nor 64 bits".to_owned())),
        Err(error) => Err(error),
    };
    facts.map_err(|error| NotElf::Damaged(error.to_string()))
}

/// What a user most likely named by mistake.
fn resemblance(data: &[u8]) -> &'static str {
    match data {
        [] => "empty",
        [b'#', b'!', ..] => "a script",
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', ..] => "a compressed archive",
        [b'<', ..] => "a web page",
        [b'M', b'Z', ..] => "a Windows program",
        _ => "something else",
    }
}

fn facts<Elf: FileHeader<Endian = Endianness>>(data: &[u8], bits: u8) -> object::Result<ElfFacts> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let mut loader = None;
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            loader = Some(text(path));
        }
    }
    let kind = header.e_type(endian);
    let mut facts = ElfFacts {
        machine: machine(header.e_machine(endian)),
        bits,
        little_endian: header.e_ident().data == ELFDATA2LSB,
        executable: kind == ET_EXEC || kind == ET_DYN,
        position_independent: false,
        loader,
        libraries: Vec::new(),
        glibc: None,
        odd_references: Vec::new(),
        build_id: None,
    };
    let sections = header.sections(endian, data)?;
    let table = sections.dynamic_table(endian, data)?;
    for entry in &table {
        let Dynamic { tag, val } = entry;
        if tag == DT_NEEDED {
            facts.libraries.push(text(table.string(entry)?));
        } else if tag == DT_FLAGS_1 {
            facts.position_independent = kind == ET_DYN && val & DF_1_PIE.0 != 0;
        }
    }
    references(endian, data, &sections, &mut facts)?;
    for section in sections.iter() {
        if let Some(mut notes) = object::read::elf::SectionHeader::notes(section, endian, data)? {
            while let Some(note) = notes.next()? {
                if note.name() == b"GNU" && note.n_type(endian) == object::elf::NT_GNU_BUILD_ID {
                    let bytes: Vec<_> = note.desc().iter().map(|byte| format!("{byte:02x}")).collect();
                    facts.build_id = Some(bytes.concat());
                }
            }
        }
    }
    Ok(facts)
}

/// The versions of glibc's symbols that the program was linked with.
fn references<Elf: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    data: &[u8],
    sections: &SectionTable<'_, Elf>,
    facts: &mut ElfFacts,
) -> object::Result<()> {
    let Some((mut needs, strings)) = sections.gnu_verneed(endian, data)? else { return Ok(()) };
    let strings = sections.strings(endian, data, strings)?;
    while let Some((_, mut versions)) = needs.next()? {
        while let Some(version) = versions.next()? {
            let name = text(version.name(endian, strings)?);
            match glibc(&name) {
                Reference::Version(version) => facts.glibc = facts.glibc.max(Some(version)),
                Reference::Odd => facts.odd_references.push(name),
                Reference::OtherLibrary => {}
            }
        }
    }
    Ok(())
}

enum Reference {
    Version(Glibc),
    Odd,
    OtherLibrary,
}

fn glibc(name: &str) -> Reference {
    let Some(version) = name.strip_prefix("GLIBC_") else { return Reference::OtherLibrary };
    // Relative relocations packed by the linker; understood from this version on.
    if version == "ABI_DT_RELR" {
        return Reference::Version(Glibc(2, 36));
    }
    let mut numbers = version.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Reference::Version(Glibc(major, minor)),
        _ => Reference::Odd,
    }
}

fn machine(machine: Machine) -> String {
    match machine {
        EM_AARCH64 => "AArch64".to_owned(),
        EM_ARM => "ARM".to_owned(),
        EM_X86_64 => "x86-64".to_owned(),
        EM_386 => "x86".to_owned(),
        EM_RISCV => "RISC-V".to_owned(),
        Machine(other) => format!("ELF machine {other}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
pub(crate) mod tests;
