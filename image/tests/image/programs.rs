//! Programs made ready for the card, with the real cross compiler and emulator: small ones in C, so that each
//! takes a moment and each fault can be made. Our own programs go through the same code in `make image`.
//!
//! Needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use weaver_image::elf::{self, Glibc};
use weaver_image::k3s::{K3sChoice, Variant, choose};
use weaver_image::programs::{CardProgram, Profile, emulation, prepare};

const GOOD: &str = r#"int main(void) { puts("tool 1.2.3"); }"#;

/// Directories of one test.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.programs()).unwrap();
        fs::create_dir(bench.symbols()).unwrap();
        bench
    }

    fn programs(&self) -> PathBuf {
        self.dir.path().join("programs")
    }

    fn symbols(&self) -> PathBuf {
        self.dir.path().join("symbols")
    }

    fn compiled(&self, source: &str, flags: &[&str]) -> PathBuf {
        let (from, to) = (self.dir.path().join("tool.c"), self.dir.path().join("built"));
        fs::write(&from, format!("#include <stdio.h>\n{source}\n")).unwrap();
        let mut gcc = Command::new("aarch64-linux-gnu-gcc");
        gcc.args(["-g", "-o"]).args([&to, &from]).args(flags);
        let status = gcc.status().expect("needs gcc-aarch64-linux-gnu");
        assert!(status.success(), "needs libc6-dev-arm64-cross");
        to
    }

    fn prepare(&self, built: &Path) -> anyhow::Result<CardProgram> {
        prepare("tool", built, "1.2.3", Profile::Release.budget(), &self.programs(), &self.symbols())
    }

    /// Why a program is refused.
    fn refused(&self, source: &str, flags: &[&str]) -> String {
        format!("{:#}", self.prepare(&self.compiled(source, flags)).unwrap_err())
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn printed(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_fit_program_is_stripped_and_its_symbols_are_found_by_name_and_by_build_id() {
    let bench = Bench::new();
    let built = bench.compiled(GOOD, &[]);
    let tool = bench.prepare(&built).unwrap();

    let bytes = fs::read(&tool.path).unwrap();
    assert_eq!(tool.size, bytes.len() as u64);
    assert!(tool.size < fs::metadata(&built).unwrap().len());
    assert_eq!(elf::read(&bytes).unwrap(), tool.facts);
    assert_eq!(tool.facts.libraries, ["libc.so.6"]);
    assert!(tool.facts.glibc.unwrap() >= Glibc(2, 17));
    let sections = printed("aarch64-linux-gnu-readelf", &["-SW"], &tool.path);
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_info"), "{sections}");
    let link = printed("aarch64-linux-gnu-readelf", &["--string-dump=.gnu_debuglink"], &tool.path);
    assert!(link.contains("tool.debug"), "{link}");

    let symbols = printed("aarch64-linux-gnu-nm", &[], &tool.symbols);
    assert!(symbols.contains(" T main"), "{symbols}");
    let id = tool.facts.build_id.unwrap();
    let by_id = bench.symbols().join(format!(".build-id/{}/{}.debug", &id[..2], &id[2..]));
    assert_eq!(fs::read(by_id).unwrap(), fs::read(&tool.symbols).unwrap());
    let notes = printed("aarch64-linux-gnu-readelf", &["-n"], &tool.symbols);
    assert!(notes.contains(&format!("Build ID: {id}")), "{notes}");
    assert_eq!(names(&bench.programs()), ["tool"]);
    assert_eq!(names(&bench.symbols()), [".build-id", "tool.debug"]);
}

#[test]
fn each_unfit_program_is_refused_and_the_one_before_it_stays() {
    let bench = Bench::new();
    let good = bench.prepare(&bench.compiled(GOOD, &[])).unwrap();
    let other = r#"int main(void) { puts("tool 1.2.2"); }"#;
    let silent = "int main(void) { return 0; }";
    let failing = r#"int main(void) { fputs("no room\n", stderr); return 7; }"#;
    let large = r#"char large[20 << 20] = "x"; int main(void) { puts("tool 1.2.3"); }"#;
    for (source, flags, words) in [
        (other, &[][..], "reports \"tool 1.2.2\", and should be version 1.2.3"),
        (silent, &[], "it printed nothing"),
        (failing, &[], "failed (exit status: 7): no room"),
        (large, &[], "the budget is 20 MiB"),
        (GOOD, &["-static"], "it has no loader"),
        (GOOD, &["-no-pie"], "not position-independent"),
        (GOOD, &["-Wl,--no-as-needed", "-l:libdl.so.2"], "it needs libdl.so.2"),
        (GOOD, &["-c"], "no program"),
    ] {
        let text = bench.refused(source, flags);
        assert!(text.contains(words), "{flags:?}: {text}");
        assert_eq!(good.sha256, weaver_devstack::download::sha256(&good.path).unwrap());
        assert_eq!(names(&bench.programs()), ["tool"], "{flags:?}");
        assert_eq!(names(&bench.symbols()), [".build-id", "tool.debug"], "{flags:?}");
    }
}

/// On an arm64 builder the program runs on that machine's own processor, which may have the instruction.
#[cfg(not(target_arch = "aarch64"))]
#[test]
fn an_instruction_that_the_pi_3_lacks_is_noticed() {
    let atomic = r#"int n; int main(void) { __atomic_fetch_add(&n, 1, 5); puts("tool 1.2.3"); }"#;
    let bench = Bench::new();
    bench.prepare(&bench.compiled(atomic, &["-march=armv8-a"])).unwrap();
    let text = bench.refused(atomic, &["-march=armv8.1-a"]);
    assert!(text.contains("llegal instruction"), "{text}");
}

#[test]
fn a_program_that_never_ends_is_ended() {
    let bench = Bench::new();
    let endless = bench.compiled("int main(void) { for (;;) ; }", &[]);
    let text = format!("{:#}", emulation::version_within(&endless, 1).unwrap_err());
    assert!(text.contains("printed nothing within 1 s"), "{text}");
}

#[test]
fn a_person_s_k3s_is_taken_for_what_it_says_it_is() {
    let bench = Bench::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let chosen = |said: &str, flags: &[&str]| {
        let built = bench.compiled(&format!(r#"int main(void) {{ puts("{said}"); }}"#), flags);
        // As a browser leaves it.
        fs::set_permissions(&built, fs::Permissions::from_mode(0o644)).unwrap();
        choose(&source, &K3sChoice::File(built), &bench.dir.path().join("k3s"))
    };
    for (said, flags, version, variant) in [
        ("k3s version v9.9.9+k3s1 (abc)", &["-static", "-no-pie"][..], "v9.9.9+k3s1", Variant::CustomK3s),
        ("k3s version v9.9.9+testbed1 (abc)", &[], "v9.9.9+testbed1", Variant::Test),
    ] {
        let k3s = chosen(said, flags).unwrap();
        assert_eq!((k3s.version.as_str(), k3s.variant), (version, variant));
        assert_eq!(names(&bench.dir.path().join("k3s")), ["k3s"]);
    }
    for said in ["k0s version v1", "k3s version ", "K3S VERSION v1"] {
        let text = format!("{:#}", chosen(said, &[]).unwrap_err());
        assert!(text.contains("is not accepted as k3s") && text.contains(said), "{text}");
    }
}
